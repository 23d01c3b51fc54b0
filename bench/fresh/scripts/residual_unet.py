"""A U-Net with group norm, bilinear growth and residual blocks, for one mask of each image."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(8, outputs) for _ in range(2))
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        out = nn.functional.silu(self.norms[0](self.first(x)))
        return nn.functional.silu(self.norms[1](self.second(out)) + self.skip(x))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [width, 2 * width, 3 * width, 5 * width]
        self.down = nn.ModuleList(Block(i, o) for i, o in zip([1, *widths], widths))
        pairs = list(zip(widths[::-1], widths[-2::-1]))
        self.up = nn.ModuleList(Block(i + o, o) for i, o in pairs)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for index, layer in enumerate(self.down):
            if index:
                kept.append(x)
                x = nn.functional.avg_pool2d(x, 2)
            x = layer(x)
        for layer in self.up:
            x = nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = layer(torch.cat([x, kept.pop()], dim=1))
        return self.head(x)


def workload(batch=6, image=320, width=40):
    images = torch.randn(batch, 1, image, image)
    masks = torch.rand(batch, 1, image, image).round()
    return {
        "model": UNet(width),
        "batch": (images, masks),
        "loss": lambda model, given: nn.functional.binary_cross_entropy_with_logits(
            model(given[0]), given[1]
        ),
    }
