"""The network, and how rays become colours."""

import torch
import torch.nn.functional as F
from torch import nn


class Encoding(nn.Module):
    def __init__(self, frequencies):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(frequencies))
        self.size = 3 + 6 * frequencies

    def forward(self, x):
        angles = (x[..., None] * self.bands).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)


class Field(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.place, self.view = Encoding(cfg["frequencies"]), Encoding(cfg["directions"])
        width, self.skip = cfg["width"], cfg["skip"]
        sizes = [self.place.size] + [width] * (cfg["depth"] - 1)
        self.layers = nn.ModuleList(
            [
                nn.Linear(size + (self.place.size if i == self.skip + 1 else 0), width)
                for i, size in enumerate(sizes)
            ]
        )
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.colour = nn.Sequential(
            nn.Linear(width + self.view.size, width // 2),
            nn.ReLU(),
            nn.Linear(width // 2, 3),
            nn.Sigmoid(),
        )

    def forward(self, points, directions):
        x = start = self.place(points)
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x))
            if i == self.skip:
                x = torch.cat([start, x], -1)
        view = self.view(directions)[:, None].expand(-1, points.shape[1], -1)
        colour = self.colour(torch.cat([self.feature(x), view], -1))
        return colour, self.density(x).squeeze(-1)


def composite(colour, density, depths):
    gaps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e10)], -1)
    alpha = 1 - torch.exp(-F.relu(density) * gaps)
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[
        :, :-1
    ]
    weights = alpha * clear
    return (weights[..., None] * colour).sum(1) + (1 - weights.sum(1, keepdim=True)), weights


def resample(depths, weights, count):
    """More depths where the coarse pass saw something."""
    middle = 0.5 * (depths[:, 1:] + depths[:, :-1])
    pdf = weights[:, 1:-1] + 1e-5
    cdf = torch.cumsum(pdf / pdf.sum(-1, keepdim=True), -1)
    cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
    u = torch.rand(len(depths), count, device=depths.device)
    above = torch.searchsorted(cdf.detach(), u, right=True).clamp(1, cdf.shape[1] - 1)
    low, high = cdf.gather(1, above - 1), cdf.gather(1, above)
    part = (u - low) / (high - low).clamp(min=1e-5)
    a, b = middle.gather(1, above - 1), middle.gather(1, above)
    return torch.sort(torch.cat([depths, a + part * (b - a)], -1), -1).values


def render_rays(coarse, fine, rays, cfg):
    origin, direction = rays
    scene, train = cfg["scene"], cfg["train"]
    steps = torch.linspace(scene["near"], scene["far"], train["coarse"], device=origin.device)
    depths = steps + torch.rand(len(origin), 1, device=origin.device) * (steps[1] - steps[0])
    view = F.normalize(direction, dim=-1)
    first, weights = composite(
        *coarse(origin[:, None] + direction[:, None] * depths[..., None], view), depths
    )
    depths = resample(depths, weights.detach(), train["fine"])
    second, _ = composite(
        *fine(origin[:, None] + direction[:, None] * depths[..., None], view), depths
    )
    return first, second
