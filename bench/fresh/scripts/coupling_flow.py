"""A normalising flow over images: squeezed pixels, 1x1 mixing, half of the channels moves the rest."""

import math

import torch
from torch import nn


class Step(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.mix = nn.Parameter(torch.eye(channels) + 0.01 * torch.randn(channels, channels))
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 1),
            nn.ReLU(),
            nn.Conv2d(width, channels, 3, padding=1),
        )

    def forward(self, x):
        x = (x + self.shift) * self.scale.exp()
        x = nn.functional.conv2d(x, self.mix[:, :, None, None])
        kept, moved = x.chunk(2, dim=1)
        log_scale, shift = self.net(kept).chunk(2, dim=1)
        log_scale = 2 * torch.tanh(log_scale / 2)
        x = torch.cat([kept, moved * log_scale.exp() + shift], dim=1)
        return x, log_scale.sum(dim=(1, 2, 3)) + self.scale.sum() * x[0, 0].numel()


class Flow(nn.Module):
    def __init__(self, steps, width):
        super().__init__()
        self.levels = nn.ModuleList(
            nn.ModuleList(Step(channels, width) for _ in range(steps)) for channels in (12, 24, 48)
        )

    def forward(self, x):
        total, settled = 0, []
        for index, level in enumerate(self.levels):
            x = nn.functional.pixel_unshuffle(x, 2)
            for step in level:
                x, change = step(x)
                total = total + change
            if index < len(self.levels) - 1:
                x, done = x.chunk(2, dim=1)
                settled.append(done.flatten(1))
        return torch.cat([*settled, x.flatten(1)], dim=1), total


def workload(batch=44, image=48, steps=6, width=192):
    images = torch.rand(batch, 3, image, image)

    def loss(model, given):
        code, change = model(given)
        normal = -0.5 * (code.square() + math.log(2 * math.pi)).sum(dim=1)
        return -(normal + change).mean() / code.shape[1]

    return {"model": Flow(steps, width), "batch": images, "loss": loss}
