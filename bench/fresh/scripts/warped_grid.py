"""Frames aligned by a predicted flow: features sampled at moved places, at three scales."""

import torch
from torch import nn


def block(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1),
        nn.GroupNorm(8, outputs),
        nn.SiLU(),
    )


class Warp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.flow = nn.Sequential(block(2 * width, width), nn.Conv2d(width, 2, 3, padding=1))
        self.join = block(2 * width, width)

    def forward(self, here, there):
        moved = self.flow(torch.cat([here, there], dim=1)).permute(0, 2, 3, 1)
        height, width = here.shape[-2:]
        rows = torch.linspace(-1, 1, height, device=here.device, dtype=here.dtype)
        columns = torch.linspace(-1, 1, width, device=here.device, dtype=here.dtype)
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        grid = torch.stack([x, y], dim=-1)[None] + 0.1 * moved.tanh()
        sampled = nn.functional.grid_sample(
            there, grid, mode="bilinear", padding_mode="border", align_corners=True
        )
        return self.join(torch.cat([here, sampled], dim=1))


class Between(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(
            nn.Sequential(block(i, o, s), block(o, o))
            for i, o, s in zip([3, *widths], widths, [1, 2, 2])
        )
        self.warps = nn.ModuleList(Warp(w) for w in widths)
        self.up = nn.ModuleList(nn.Conv2d(w, w // 2, 1) for w in widths[1:])
        self.head = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, pair):
        here, there = pair[:, :3], pair[:, 3:]
        levels = []
        for down, warp in zip(self.down, self.warps):
            here, there = down(here), down(there)
            levels.append(warp(here, there))
        x = levels.pop()
        for up in reversed(self.up):
            below = levels.pop()
            wide = nn.functional.interpolate(
                up(x), size=below.shape[-2:], mode="bilinear", align_corners=False
            )
            x = below + wide
        return self.head(x)


def workload(batch=24, image=112, width=40):
    pairs = torch.rand(batch, 6, image, image)
    middle = torch.rand(batch, 3, image, image)
    return {
        "model": Between(width),
        "batch": (pairs, middle),
        "loss": lambda model, given: nn.functional.l1_loss(model(given[0]), given[1]),
    }
