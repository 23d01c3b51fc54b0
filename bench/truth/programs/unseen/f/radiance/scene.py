"""Pictures of a made-up ball from cameras on a circle."""

import math

import torch


def camera(angle, radius=4.0):
    back = torch.tensor([math.sin(angle), 0.3, math.cos(angle)])
    back = back / back.norm()
    right = torch.linalg.cross(torch.tensor([0.0, 1.0, 0.0]), back)
    right = right / right.norm()
    return torch.stack([right, torch.linalg.cross(back, right), back], 1), back * radius


def rays_of(angle, cfg):
    turn, origin = camera(angle)
    y, x = torch.meshgrid(torch.arange(cfg["height"]), torch.arange(cfg["width"]), indexing="ij")
    local = torch.stack(
        [
            (x - cfg["width"] / 2) / cfg["focal"],
            -(y - cfg["height"] / 2) / cfg["focal"],
            -torch.ones_like(x, dtype=torch.float),
        ],
        -1,
    )
    direction = (local @ turn.T).reshape(-1, 3)
    return origin.expand_as(direction), direction


def picture(origin, direction):
    closest = -(origin * direction).sum(-1) / (direction**2).sum(-1)
    point = origin + closest[:, None] * direction
    hit = point.norm(dim=-1) < 1
    colour = 0.5 + 0.5 * torch.sin(3 * point)
    return torch.where(hit[:, None], colour, torch.ones_like(colour))


def load(cfg):
    angles = torch.linspace(0, 2 * math.pi, cfg["pictures"] + 1)[:-1].tolist()
    parts = [rays_of(angle, cfg) for angle in angles]
    origins, directions = torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts])
    colours = torch.stack([picture(*p) for p in parts])
    return origins, directions, colours
