"""A classifier for tables: embedded categories beside numbers, residual blocks with batch norm."""

import torch
from torch import nn

CATEGORIES = 40


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(width),
            nn.Linear(width, 2 * width),
            nn.ReLU(),
            nn.Dropout(0.15),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + self.layers(x)


class Classifier(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.categories = nn.Embedding(5000, 24)
        self.enter = nn.Linear(CATEGORIES * 24, width)
        self.blocks = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.head = nn.Linear(width, 17)

    def forward(self, rows):
        return self.head(self.blocks(self.enter(self.categories(rows).flatten(1))))


def workload(batch=4096, width=1536, depth=9):
    rows = torch.randint(0, 5000, (batch, CATEGORIES))
    labels = torch.randint(0, 17, (batch,))
    return {
        "model": Classifier(width, depth),
        "batch": (rows, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
