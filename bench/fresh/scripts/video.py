"""A residual network of 3D convolutions over short clips."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv3d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
        )
        self.skip = nn.Sequential(
            nn.Conv3d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm3d(outputs)
        )

    def forward(self, x):
        return nn.functional.relu(self.layers(x) + self.skip(x))


def workload(batch=6, frames=16, image=112, width=40, classes=101):
    model = nn.Sequential(
        nn.Conv3d(3, width, (3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), bias=False),
        nn.BatchNorm3d(width),
        nn.ReLU(inplace=True),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        Block(4 * width, 8 * width, 2),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )
    clips = torch.randn(batch, 3, frames, image, image)
    labels = torch.randint(0, classes, (batch,))
    return {
        "model": model,
        "batch": (clips, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
