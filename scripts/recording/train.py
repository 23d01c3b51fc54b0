"""A small training on the memory of the host, for the recording: what it keeps grows with its batch."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=96)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--steps", type=int, default=3)
given = parser.parse_args()

torch.manual_seed(0)
width = 2**16
weights = [torch.nn.Parameter(torch.ones(width)) for _ in range(12)]
optimizer = torch.optim.SGD(weights, lr=0.1)
for step in range(given.steps):
    data = torch.Generator().manual_seed(step)
    total = 0.0
    for _ in range(given.accumulate):
        hidden = torch.randn(given.batch_size, width, generator=data)
        for weight in weights:
            hidden = torch.tanh(hidden * weight)
        loss = hidden.square().mean() / given.accumulate
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step + 1}/{given.steps}  loss {total:.6f}", flush=True)
