"""Heads of a detector over a pyramid of features: depthwise convolutions, sums across levels."""

import torch
from torch import nn


def separable(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 5, stride=stride, padding=2, groups=inputs, bias=False),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.Hardswish(inplace=True),
    )


class Pyramid(nn.Module):
    def __init__(self, width, anchors):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 6 * width]
        self.enter = nn.Conv2d(3, width, 3, stride=4, padding=1)
        self.stages = nn.ModuleList(
            nn.Sequential(separable(i, o, 2), separable(o, o))
            for i, o in zip([width, *widths], widths)
        )
        self.sides = nn.ModuleList(nn.Conv2d(w, 96, 1) for w in widths)
        self.head = nn.Sequential(separable(96, 96), nn.Conv2d(96, anchors * 14, 1))

    def forward(self, x):
        x, levels = self.enter(x), []
        for stage, side in zip(self.stages, self.sides):
            x = stage(x)
            levels.append(side(x))
        for index in range(len(levels) - 2, -1, -1):
            size = levels[index].shape[-2:]
            above = nn.functional.interpolate(levels[index + 1], size=size, mode="nearest")
            levels[index] = levels[index] + above
        return torch.cat([self.head(level).flatten(2) for level in levels], dim=2)


def workload(batch=10, image=640, width=48, anchors=9):
    images = torch.randn(batch, 3, image, image)
    sides = [image // 8, image // 16, image // 32, image // 64]
    truth = torch.randn(batch, anchors * 14, sum(side * side for side in sides))
    return {
        "model": Pyramid(width, anchors),
        "batch": (images, truth),
        "loss": lambda model, given: nn.functional.smooth_l1_loss(model(given[0]), given[1]),
    }
