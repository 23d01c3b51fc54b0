"""Sets without an order: induced points read the set, the set reads them, seeds pool it."""

import torch
from torch import nn


class Read(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x, seen):
        x = self.first(x + self.attention(x, seen, seen, need_weights=False)[0])
        return self.second(x + self.mlp(x))


class Induced(nn.Module):
    def __init__(self, width, heads, points):
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, width))
        self.gather = Read(width, heads)
        self.spread = Read(width, heads)

    def forward(self, x):
        return self.spread(x, self.gather(self.points.expand(x.shape[0], -1, -1), x))


class Sets(nn.Module):
    def __init__(self, width, heads, points, layers):
        super().__init__()
        self.enter = nn.Linear(9, width)
        self.layers = nn.Sequential(*[Induced(width, heads, points) for _ in range(layers)])
        self.seeds = nn.Parameter(torch.randn(1, 4, width))
        self.pool = Read(width, heads)
        self.head = nn.Linear(4 * width, 30)

    def forward(self, x):
        x = self.layers(self.enter(x))
        x = self.pool(self.seeds.expand(x.shape[0], -1, -1), x)
        return self.head(x.flatten(1))


def workload(batch=70, seq=620, width=320, heads=5, points=40, layers=4):
    members = torch.randn(batch, seq, 9)
    labels = torch.randint(0, 30, (batch,))
    return {
        "model": Sets(width, heads, points, layers),
        "batch": lambda: (members, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
