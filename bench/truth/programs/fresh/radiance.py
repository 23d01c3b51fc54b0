"""A radiance field: rays sampled twice, coarse and fine, and a picture rendered in chunks after training."""

import torch
from torch import nn

device = "cuda"


def encoded(x, levels):
    out = [x]
    for i in range(levels):
        out += [torch.sin(2.0**i * x), torch.cos(2.0**i * x)]
    return torch.cat(out, -1)


class Field(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first = nn.ModuleList(
            [nn.Linear(63, width)] + [nn.Linear(width, width) for _ in range(3)]
        )
        self.second = nn.ModuleList(
            [nn.Linear(width + 63, width)] + [nn.Linear(width, width) for _ in range(3)]
        )
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.color = nn.Sequential(
            nn.Linear(width + 27, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid()
        )

    def forward(self, points, view):
        x = e = encoded(points, 10)
        for layer in self.first:
            x = torch.relu(layer(x))
        x = torch.cat([e, x], -1)
        for layer in self.second:
            x = torch.relu(layer(x))
        return self.color(torch.cat([self.feature(x), encoded(view, 4)], -1)), torch.relu(
            self.density(x)
        )


def rendered(field, origin, direction, depths):
    points = origin[:, None] + direction[:, None] * depths[..., None]
    color, density = field(points, direction[:, None].expand_as(points))
    gaps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e10)], -1)
    alpha = 1 - torch.exp(-density[..., 0] * gaps)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[
        :, :-1
    ]
    weights = alpha * through
    return (weights[..., None] * color).sum(1), weights


def finer(depths, weights, count):
    cdf = torch.cumsum(weights + 1e-5, -1)
    cdf = cdf / cdf[:, -1:]
    place = torch.searchsorted(cdf, torch.rand(len(cdf), count, device=cdf.device)).clamp(
        max=depths.shape[-1] - 1
    )
    return torch.sort(torch.cat([depths, torch.gather(depths, 1, place)], -1), -1)[0]


coarse, fine = Field().to(device), Field().to(device)
optimizer = torch.optim.Adam([*coarse.parameters(), *fine.parameters()], lr=5e-4)
rays = torch.randn(200_000, 9)
for step in range(40):
    batch = rays[torch.randint(0, len(rays), (2048,))].to(device)
    origin, direction, target = (
        batch[:, :3],
        nn.functional.normalize(batch[:, 3:6], dim=-1),
        batch[:, 6:].sigmoid(),
    )
    depths = torch.linspace(2, 6, 64, device=device).expand(len(batch), 64)
    first, weights = rendered(coarse, origin, direction, depths)
    second, _ = rendered(fine, origin, direction, finer(depths, weights.detach(), 96))
    loss = ((first - target) ** 2).mean() + ((second - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, -10 * torch.log10(loss.detach()).item())
with torch.no_grad():
    picture = []
    for chunk in rays[: 128 * 128].split(8192):
        chunk = chunk.to(device)
        origin, direction = chunk[:, :3], nn.functional.normalize(chunk[:, 3:6], dim=-1)
        depths = torch.linspace(2, 6, 64, device=device).expand(len(chunk), 64)
        _, weights = rendered(coarse, origin, direction, depths)
        picture.append(rendered(fine, origin, direction, finer(depths, weights, 96))[0])
    print(torch.cat(picture).cpu().mean())
