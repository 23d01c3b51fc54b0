"""The README's three lines, on the host: a step that runs out of memory once, and recovers."""

import torch

import plimsoll

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sizes = []


def loss_of(batch):
    sizes.append(len(batch))
    if len(batch) > 4:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    return model(batch).pow(2).mean()


step = plimsoll.recovering(model, optimizer, loss_of)
step(torch.ones(8, 4))
assert sizes[0] == 8 and set(sizes[1:]) == {4}, sizes
print("recovered", sizes)
