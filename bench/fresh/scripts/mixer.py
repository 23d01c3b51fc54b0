"""An MLP-Mixer: linear layers over the patches, then over the channels."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.places = nn.Sequential(
            nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class Mixer(nn.Module):
    def __init__(self, image, patch, width, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        count = (image // patch) ** 2
        self.blocks = nn.Sequential(*[Block(count, width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


def workload(batch=56, image=208, patch=16, width=640, layers=10):
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(0, 1000, (batch,))
    return {
        "model": Mixer(image, patch, width, layers),
        "batch": (images, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
