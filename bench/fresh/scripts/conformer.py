"""A conformer over spectrograms: half layers around attention and depthwise convolutions, by hand."""

import torch
from torch import nn


class Convolution(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch = nn.BatchNorm1d(width)
        self.leave = nn.Conv1d(width, width, 1)

    def forward(self, x):
        h = nn.functional.glu(self.enter(self.norm(x).transpose(1, 2)), dim=1)
        return self.leave(nn.functional.silu(self.batch(self.depth(h)))).transpose(1, 2)


def half(width):
    return nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
    )


class Layer(nn.Module):
    def __init__(self, width, heads, kernel):
        super().__init__()
        self.first, self.last = half(width), half(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.convolution = Convolution(width, kernel)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=True)[0]
        x = x + self.convolution(x)
        return self.norm2(x + 0.5 * self.last(x))


class Conformer(nn.Module):
    def __init__(self, bands, width, heads, layers, kernel, letters):
        super().__init__()
        self.less = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2)
        )
        self.enter = nn.Linear(width * (((bands - 1) // 2 - 1) // 2), width)
        self.layers = nn.Sequential(*(Layer(width, heads, kernel) for _ in range(layers)))
        self.out = nn.Linear(width, letters)

    def forward(self, sound):
        x = torch.relu(self.less(sound[:, None]))
        x = self.enter(x.transpose(1, 2).flatten(2))
        return self.out(self.layers(x)).log_softmax(dim=-1)


def workload(
    batch=90, frames=1000, bands=80, width=256, heads=4, layers=10, kernel=31, letters=128
):
    return {
        "model": Conformer(bands, width, heads, layers, kernel, letters),
        "batch": torch.randn(batch, frames, bands),
        "loss": lambda model, sound: -model(sound)[..., 0].mean(),
    }
