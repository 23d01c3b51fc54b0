"""Images made three times larger: residual blocks without norms, then a shuffle of pixels."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )

    def forward(self, x):
        return x + 0.1 * self.layers(x)


def workload(batch=12, image=64, width=80, blocks=12):
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        *[Block(width) for _ in range(blocks)],
        nn.Conv2d(width, 9 * width, 3, padding=1),
        nn.PixelShuffle(3),
        nn.Conv2d(width, 3, 3, padding=1),
    )
    small = torch.rand(batch, 3, image, image)
    large = torch.rand(batch, 3, 3 * image, 3 * image)
    return {
        "model": model,
        "batch": (small, large),
        "loss": lambda model, given: nn.functional.l1_loss(model(given[0]), given[1]),
    }
