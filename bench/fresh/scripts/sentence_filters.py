"""Sentences classified by filters of several widths over word vectors, one of the two fixed."""

import torch
from torch import nn


class Filters(nn.Module):
    def __init__(self, words, width, filters, kernels, classes):
        super().__init__()
        self.fixed = nn.Embedding(words, width)
        self.fixed.weight.requires_grad_(False)
        self.tuned = nn.Embedding(words, width)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(2, filters, (kernel, width), padding=(kernel - 1, 0)) for kernel in kernels
        )
        self.highway = nn.Linear(filters * len(kernels), 2 * filters * len(kernels))
        self.out = nn.Linear(filters * len(kernels), classes)

    def forward(self, ids):
        x = torch.stack([self.fixed(ids), self.tuned(ids)], dim=1)
        found = [torch.relu(conv(x)).squeeze(3).amax(dim=2) for conv in self.convolutions]
        x = torch.cat(found, dim=1)
        gate, value = self.highway(x).chunk(2, dim=1)
        gate = torch.sigmoid(gate)
        x = gate * torch.relu(value) + (1 - gate) * x
        return self.out(nn.functional.dropout(x, 0.5, self.training))


def workload(batch=96, words=180, vocabulary=80000, width=300, filters=512, classes=20):
    def given():
        ids = torch.randint(0, vocabulary, (batch, words))
        return ids, torch.randint(0, classes, (batch,))

    return {
        "model": Filters(vocabulary, width, filters, (2, 3, 4, 5, 7), classes),
        "batch": given,
        "loss": lambda model, made: nn.functional.cross_entropy(model(made[0]), made[1]),
    }
