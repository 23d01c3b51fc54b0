"""Clicks from categories and numbers: factorized pairs, a cross network and deep layers side by side."""

import torch
from torch import nn


class Clicks(nn.Module):
    def __init__(self, fields, rows, width, numbers, deep, crosses):
        super().__init__()
        self.first = nn.Embedding(fields * rows, 1)
        self.factors = nn.Embedding(fields * rows, width)
        self.register_buffer("starts", torch.arange(fields) * rows)
        size = fields * width + numbers
        self.norm = nn.BatchNorm1d(numbers)
        self.crosses = nn.ModuleList(nn.Linear(size, size) for _ in range(crosses))
        layers = []
        for inputs, outputs in zip([size, *deep], deep):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
            layers += [nn.Dropout(0.2)]
        self.deep = nn.Sequential(*layers)
        self.out = nn.Linear(size + deep[-1], 1)

    def forward(self, categories, numbers):
        index = categories + self.starts
        factors = self.factors(index)
        pairs = 0.5 * (factors.sum(dim=1).square() - factors.square().sum(dim=1)).sum(dim=1)
        x = torch.cat([factors.flatten(1), self.norm(numbers)], dim=1)
        crossed = x
        for cross in self.crosses:
            crossed = x * cross(crossed) + crossed
        score = self.out(torch.cat([crossed, self.deep(x)], dim=1)).squeeze(1)
        return score + pairs + self.first(index).sum(dim=(1, 2))


def workload(batch=24000, rows=50000, fields=26, width=16, numbers=13):
    categories = torch.randint(0, rows, (batch, fields))
    values = torch.randn(batch, numbers)
    clicked = torch.randint(0, 2, (batch,)).float()

    def loss(model, given):
        categories, values, clicked = given
        scores = model(categories, values)
        return nn.functional.binary_cross_entropy_with_logits(scores, clicked)

    return {
        "model": Clicks(fields, rows, width, numbers, [768, 384, 192], 3),
        "batch": (categories, values, clicked),
        "loss": loss,
    }
