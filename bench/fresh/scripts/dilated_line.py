"""A temporal convolutional network over raw signals: dilated 1D convolutions with residuals."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.norm = nn.BatchNorm1d(2 * width)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(nn.functional.glu(self.norm(self.conv(x)), dim=1))


class Line(nn.Module):
    def __init__(self, width, rounds):
        super().__init__()
        self.enter = nn.Conv1d(12, width, 7, stride=2, padding=3)
        dilations = [2**level for level in range(6)] * rounds
        self.blocks = nn.Sequential(*[Block(width, dilation) for dilation in dilations])
        self.head = nn.Linear(width, 9)

    def forward(self, x):
        return self.head(self.blocks(self.enter(x)).mean(dim=-1))


def workload(batch=24, seq=5000, width=112, rounds=2):
    signals = torch.randn(batch, 12, seq)
    labels = torch.randint(0, 9, (batch,))
    return {
        "model": Line(width, rounds),
        "batch": (signals, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
