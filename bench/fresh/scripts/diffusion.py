"""A step of a diffusion model: residual blocks with group norm and SiLU, attention in the middle."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(512, outputs)
        self.second = nn.Sequential(
            nn.GroupNorm(32, outputs),
            nn.SiLU(),
            nn.Dropout(0.1),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 512))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            [Block(width, width), Block(width, 2 * width), Block(2 * width, 4 * width)]
        )
        self.norm = nn.GroupNorm(32, 4 * width)
        self.attention = nn.MultiheadAttention(4 * width, 8, batch_first=True)
        self.up = nn.ModuleList(
            [Block(8 * width, 2 * width), Block(4 * width, width), Block(2 * width, width)]
        )
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, time):
        time = self.time(time)
        x = self.enter(x)
        kept = []
        for layer in self.down:
            x = layer(x, time)
            kept.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        flat = self.norm(x).flatten(2).transpose(1, 2)
        flat = self.attention(flat, flat, flat, need_weights=False)[0]
        x = x + flat.transpose(1, 2).reshape(x.shape)
        for layer in self.up:
            x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            x = layer(torch.cat([x, kept.pop()], dim=1), time)
        return self.leave(x)


def workload(batch=16, image=64, width=128):
    images = torch.randn(batch, 3, image, image)
    time = torch.randn(batch, 128)
    noise = torch.randn(batch, 3, image, image)
    return {
        "model": Denoiser(width),
        "batch": (images, time, noise),
        "loss": lambda model, given: nn.functional.mse_loss(model(given[0], given[1]), given[2]),
    }
