"""A masked autoregressive flow over tables: each feature moved by those before it, orders reversed."""

import math

import torch
from torch import nn


class MaskedLinear(nn.Linear):
    def __init__(self, before, after, strict):
        super().__init__(len(before), len(after))
        mask = after[:, None] > before if strict else after[:, None] >= before
        self.register_buffer("mask", mask.float())

    def forward(self, x):
        return nn.functional.linear(x, self.weight * self.mask, self.bias)


class Step(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        order = torch.arange(features)
        inner = torch.arange(hidden) % (features - 1)
        self.net = nn.Sequential(
            MaskedLinear(order, inner, False),
            nn.ReLU(),
            MaskedLinear(inner, inner, False),
            nn.ReLU(),
            MaskedLinear(inner, order.repeat(2), True),
        )
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        shift, scale = self.net(x).chunk(2, dim=1)
        scale = torch.tanh(scale)
        x = (x - shift) * torch.exp(-scale)
        return self.norm(x).flip(1), -scale.sum(dim=1)


class Flow(nn.Module):
    def __init__(self, features, hidden, steps):
        super().__init__()
        self.steps = nn.ModuleList(Step(features, hidden) for _ in range(steps))

    def forward(self, x):
        total = torch.zeros(len(x), device=x.device)
        for step in self.steps:
            x, change = step(x)
            total = total + change
        return -0.5 * (x.square() + math.log(2 * math.pi)).sum(dim=1) + total


def workload(batch=20000, features=128, hidden=1024, steps=8):
    return {
        "model": Flow(features, hidden, steps),
        "batch": torch.randn(batch, features),
        "loss": lambda model, rows: -model(rows).mean(),
    }
