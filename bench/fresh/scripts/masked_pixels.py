"""Pixels guessed one after the other: convolutions whose masks hide what comes later, gated."""

import torch
from torch import nn


class Masked(nn.Conv2d):
    def __init__(self, inputs, outputs, size, first):
        super().__init__(inputs, outputs, size, padding=size // 2)
        mask = torch.ones(1, 1, size, size)
        mask[:, :, size // 2, size // 2 + (0 if first else 1) :] = 0
        mask[:, :, size // 2 + 1 :] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return self._conv_forward(x, self.weight * self.mask, self.bias)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.wide = Masked(width, 2 * width, 3, first=False)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x):
        value, gate = self.wide(self.norm(x)).chunk(2, dim=1)
        return x + self.out(value.tanh() * gate.sigmoid())


class Pixels(nn.Module):
    def __init__(self, width, layers, levels):
        super().__init__()
        self.enter = Masked(3, width, 7, first=True)
        self.layers = nn.Sequential(*[Gated(width) for _ in range(layers)])
        self.head = nn.Conv2d(width, 3 * levels, 1)

    def forward(self, x):
        logits = self.head(nn.functional.relu(self.layers(self.enter(x))))
        return logits.unflatten(1, (-1, 3))


def workload(batch=37, image=56, width=104, layers=9, levels=32):
    shades = torch.randint(0, levels, (batch, 3, image, image))
    images = shades / (levels - 1)
    return {
        "model": Pixels(width, layers, levels),
        "batch": (images, shades),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
