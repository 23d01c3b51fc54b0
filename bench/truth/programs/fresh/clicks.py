"""Clicks: bags of embeddings with sparse gradients, a dense part beside them, two optimizers."""

import torch
from torch import nn

rows, fields, width, batch = 300_000, 12, 32, 4096


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode="sum", sparse=True) for _ in range(fields)
        )
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        self.top = nn.Sequential(
            nn.Linear(width + (fields + 1) * fields // 2, 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, 1),
        )

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        all_of = torch.stack([x] + [bag(i, o) for bag, i, o in zip(self.bags, ids, offsets)], 1)
        crossed = torch.bmm(all_of, all_of.transpose(1, 2))
        i, j = torch.tril_indices(fields + 1, fields + 1, -1, device=x.device)
        return self.top(torch.cat([x, crossed[:, i, j]], 1)).squeeze(1)


device = torch.device("cuda:0")
model = Clicks().to(device)
sparse = torch.optim.SparseAdam(list(model.bags.parameters()), lr=1e-3)
dense = torch.optim.Adagrad([*model.bottom.parameters(), *model.top.parameters()], lr=1e-2)
for step in range(20):
    x = torch.rand(batch, 13, device=device)
    ids = [torch.randint(0, rows, (batch * 4,), device=device) for _ in range(fields)]
    offsets = [torch.arange(0, batch * 4, 4, device=device) for _ in range(fields)]
    y = torch.randint(0, 2, (batch,), device=device).float()
    loss = nn.functional.binary_cross_entropy_with_logits(model(x, ids, offsets), y)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
print(loss.item())
