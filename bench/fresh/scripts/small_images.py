"""A wide residual network for images of 32 x 32: norm and ReLU come before each convolution."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)])
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        same = inputs == outputs and stride == 1
        self.skip = None if same else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x):
        ready = nn.functional.relu(self.norms[0](x))
        out = self.second(nn.functional.relu(self.norms[1](self.first(ready))))
        return out + (x if self.skip is None else self.skip(ready))


def workload(batch=128, width=6, depth=3, image=32):
    widths = [16 * width, 32 * width, 64 * width]
    layers, inputs = [nn.Conv2d(3, 16, 3, padding=1, bias=False)], 16
    for stage, outputs in enumerate(widths):
        for index in range(depth):
            layers.append(Block(inputs, outputs, 2 if stage and not index else 1))
            inputs = outputs
    head = [nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(0, 100, (batch,))
    return {
        "model": nn.Sequential(*layers, *head, nn.Linear(inputs, 100)),
        "batch": (images, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
