"""Bags of words of several fields, each summed to one vector, then crossed and classified."""

import torch
from torch import nn


class Cross(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Linear(size, size)

    def forward(self, first, x):
        return first * self.weight(x) + x


class Bags(nn.Module):
    def __init__(self, words, fields, size, wide):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(words, size, mode="mean" if field % 2 else "sum")
            for field in range(fields)
        )
        self.crosses = nn.ModuleList(Cross(fields * size) for _ in range(3))
        self.deep = nn.Sequential(
            nn.Linear(fields * size, wide),
            nn.BatchNorm1d(wide),
            nn.PReLU(),
            nn.Dropout(0.2),
            nn.Linear(wide, wide // 2),
            nn.BatchNorm1d(wide // 2),
            nn.PReLU(),
            nn.Linear(wide // 2, 1),
        )

    def forward(self, ids):
        first = torch.cat([bag(ids[:, i]) for i, bag in enumerate(self.bags)], dim=-1)
        x = first
        for cross in self.crosses:
            x = cross(first, x)
        return self.deep(x).squeeze(-1)


def workload(batch=9000, words=80000, fields=7, length=15, size=112, wide=1500):
    ids = torch.randint(0, words, (batch, fields, length))
    clicked = torch.randint(0, 2, (batch,)).float()

    def loss(model, given):
        return nn.functional.binary_cross_entropy_with_logits(model(given[0]), given[1])

    return {"model": Bags(words, fields, size, wide), "batch": (ids, clicked), "loss": loss}
