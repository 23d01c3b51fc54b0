"""A one-stage detector: stages whose half goes around the residuals, pooling of three sizes, heads."""

import torch
from torch import nn


def conv(inputs, outputs, kernel=3, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
        nn.SiLU(inplace=True),
    )


class Stage(nn.Module):
    def __init__(self, inputs, outputs, depth):
        super().__init__()
        half = outputs // 2
        self.split = conv(inputs, outputs, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(half, half), conv(half, half)) for _ in range(depth)
        )
        self.join = conv(half * (2 + depth), outputs, 1)

    def forward(self, x):
        parts = list(self.split(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.join(torch.cat(parts, dim=1))


class Pools(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.out = conv(width, width // 2, 1), conv(width * 2, width, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        seen = [self.inner(x)]
        for _ in range(3):
            seen.append(self.pool(seen[-1]))
        return self.out(torch.cat(seen, dim=1))


class Detector(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        w = [width * 2**i for i in range(5)]
        self.start = nn.Sequential(
            conv(3, w[0], 3, 2), conv(w[0], w[1], 3, 2), Stage(w[1], w[1], 2)
        )
        self.third = nn.Sequential(conv(w[1], w[2], 3, 2), Stage(w[2], w[2], 4))
        self.fourth = nn.Sequential(conv(w[2], w[3], 3, 2), Stage(w[3], w[3], 4))
        self.fifth = nn.Sequential(conv(w[3], w[4], 3, 2), Stage(w[4], w[4], 2), Pools(w[4]))
        self.up = nn.Upsample(scale_factor=2)
        self.join_fourth = Stage(w[4] + w[3], w[3], 2)
        self.join_third = Stage(w[3] + w[2], w[2], 2)
        self.heads = nn.ModuleList(
            nn.Sequential(conv(i, 128), conv(128, 128), nn.Conv2d(128, classes + 64, 1))
            for i in (w[2], w[3], w[4])
        )

    def forward(self, images):
        third = self.third(self.start(images))
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        fourth = self.join_fourth(torch.cat([self.up(fifth), fourth], dim=1))
        third = self.join_third(torch.cat([self.up(fourth), third], dim=1))
        found = [head(x).flatten(2) for head, x in zip(self.heads, (third, fourth, fifth))]
        return torch.cat(found, dim=2)


def workload(batch=36, image=512, width=48, classes=80):
    return {
        "model": Detector(width, classes),
        "batch": torch.rand(batch, 3, image, image),
        "loss": lambda model, images: model(images).float().square().mean(),
    }
