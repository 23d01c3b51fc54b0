"""Pictures through a codebook: convolutions to a grid of nearest entries, and back."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.GroupNorm(16, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(16, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x):
        return x + self.layers(x)


class Codebook(nn.Module):
    def __init__(self, width, entries, size):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=2, padding=1),
            Block(width),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            Block(2 * width),
            Block(2 * width),
            nn.Conv2d(2 * width, size, 1),
        )
        self.entries = nn.Parameter(torch.randn(entries, size))
        self.outer = nn.Sequential(
            nn.Conv2d(size, 2 * width, 3, padding=1),
            Block(2 * width),
            Block(2 * width),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            Block(width),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
        )

    def forward(self, images):
        x = self.inner(images)
        flat = x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
        with torch.no_grad():
            near = torch.cdist(flat.float(), self.entries.float()).argmin(dim=1)
        found = self.entries[near].view(len(x), *x.shape[2:], -1).permute(0, 3, 1, 2)
        passed = x + (found - x).detach()
        drift = (found.detach() - x).square().mean() * 0.25 + (found - x.detach()).square().mean()
        return self.outer(passed), drift


def workload(batch=20, image=128, width=128, entries=2048, size=64):
    def loss(model, images):
        made, drift = model(images)
        return (made - images).square().mean() + drift

    return {
        "model": Codebook(width, entries, size),
        "batch": lambda: torch.rand(batch, 3, image, image),
        "loss": loss,
    }
