"""Volumes segmented by 3D convolutions: instance norms, a narrow middle, transposed ones back up."""

import torch
from torch import nn


def double(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(outputs, outputs, 3, padding=1, bias=False),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class Volumes(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.first = double(1, width)
        self.second = double(width, 2 * width, 2)
        self.third = double(2 * width, 4 * width, 2)
        self.grow_two = nn.ConvTranspose3d(4 * width, 2 * width, 2, stride=2)
        self.back_two = double(4 * width, 2 * width)
        self.grow_one = nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.back_one = double(2 * width, width)
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        first = self.first(x)
        second = self.second(first)
        x = self.grow_two(self.third(second))
        x = self.back_two(torch.cat([x, second], dim=1))
        x = self.back_one(torch.cat([self.grow_one(x), first], dim=1))
        return self.head(x)


def workload(batch=22, side=72, width=24, classes=6):
    volumes = torch.randn(batch, 1, side, side, side)
    labels = torch.randint(0, classes, (batch, side, side, side))
    return {
        "model": Volumes(width, classes),
        "batch": lambda: (volumes, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
