"""Patches mixed by large depthwise convolutions in space and by 1x1 convolutions in channels."""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + x


def mixer(width, depth, kernel, patch, classes):
    layers = [nn.Conv2d(3, width, patch, stride=patch), nn.GELU(), nn.BatchNorm2d(width)]
    for _ in range(depth):
        space = nn.Conv2d(width, width, kernel, groups=width, padding="same")
        layers += [
            Residual(nn.Sequential(space, nn.GELU(), nn.BatchNorm2d(width))),
            nn.Conv2d(width, width, 1),
            nn.GELU(),
            nn.BatchNorm2d(width),
        ]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    return nn.Sequential(*layers)


def workload(batch=24, image=192, width=640, depth=14, kernel=9, patch=8, classes=120):
    def given():
        return torch.randn(batch, 3, image, image), torch.randint(0, classes, (batch,))

    return {
        "model": mixer(width, depth, kernel, patch, classes),
        "batch": given,
        "loss": lambda model, made: nn.functional.cross_entropy(model(made[0]), made[1]),
    }
