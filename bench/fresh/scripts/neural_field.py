"""Rays through a scene: sines of places into a deep MLP, colors gathered along each ray."""

import torch
from torch import nn


def waves(x, count):
    scaled = x[..., None, :] * 2.0 ** torch.arange(count, device=x.device)[:, None]
    return torch.cat([x, scaled.sin().flatten(-2), scaled.cos().flatten(-2)], dim=-1)


class Field(nn.Module):
    def __init__(self, width, layers, samples):
        super().__init__()
        self.samples = samples
        place, view = 3 + 60, 3 + 24
        self.layers = nn.ModuleList(
            nn.Linear(place if i == 0 else width + place if i == layers // 2 else width, width)
            for i in range(layers)
        )
        self.density = nn.Linear(width, 1)
        self.feature = nn.Linear(width, width)
        self.color = nn.Sequential(
            nn.Linear(width + view, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid()
        )

    def forward(self, rays):
        origins, directions = rays.split(3, dim=-1)
        depths = torch.linspace(2, 6, self.samples, device=rays.device)
        places = origins[:, None] + directions[:, None] * depths[:, None]
        given = x = waves(places, 10)
        for index, layer in enumerate(self.layers):
            if index == len(self.layers) // 2:
                x = torch.cat([given, x], dim=-1)
            x = torch.relu(layer(x))
        view = waves(directions, 4)[:, None].expand(-1, self.samples, -1)
        opacity = 1 - torch.exp(-torch.relu(self.density(x).squeeze(-1)) * 4 / self.samples)
        colors = self.color(torch.cat([self.feature(x), view], dim=-1))
        through = torch.cumprod(1 - opacity + 1e-10, dim=1)
        return ((opacity * through)[..., None] * colors).sum(dim=1)


def workload(rays=8192, samples=96, width=256, layers=8):
    return {
        "model": Field(width, layers, samples),
        "batch": (torch.randn(rays, 6), torch.rand(rays, 3)),
        "loss": lambda model, made: (model(made[0]) - made[1]).square().mean(),
    }
