"""Sound squeezed by strided 1D convolutions and unfolded again by transposed ones."""

import torch
from torch import nn


class Snake(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(1, width, 1))

    def forward(self, x):
        return x + (self.rate * x).sin().square() / (self.rate + 1e-3)


class Unit(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.layers = nn.Sequential(
            Snake(width),
            nn.Conv1d(width, width, 7, padding=3 * dilation, dilation=dilation),
            Snake(width),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x):
        return x + self.layers(x)


def units(width):
    return [Unit(width, dilation) for dilation in (1, 3, 9)]


def workload(batch=34, seq=60000, width=48, strides=(2, 4, 5)):
    down, up = [nn.Conv1d(1, width, 7, padding=3)], []
    for stride in strides:
        size = {"kernel_size": 2 * stride, "stride": stride, "padding": (stride + 1) // 2}
        down += [*units(width), Snake(width), nn.Conv1d(width, 2 * width, **size)]
        odd = {"output_padding": stride % 2}
        grow = nn.ConvTranspose1d(2 * width, width, **size, **odd)
        up = [Snake(2 * width), grow, *units(width), *up]
        width *= 2
    code = nn.Conv1d(width, width, 3, padding=1)
    first = width // 2 ** len(strides)
    model = nn.Sequential(*down, code, *up, Snake(first), nn.Conv1d(first, 1, 7, padding=3))
    waves = torch.randn(batch, 1, seq)
    return {
        "model": model,
        "batch": lambda: waves,
        "loss": lambda model, given: nn.functional.l1_loss(model(given), given),
    }
