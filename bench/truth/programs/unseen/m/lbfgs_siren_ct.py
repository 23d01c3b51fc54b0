"""Fit a sine network (SIREN) to the voxels of a CT volume with LBFGS (strong Wolfe line search), full batch; renders unseen slices and prints the PSNR."""

import argparse
import math
import time

import torch
from torch import nn


class Sine(nn.Module):
    def __init__(self, a, b, first=False, omega=30.0):
        super().__init__()
        self.linear, self.omega = nn.Linear(a, b), omega
        bound = 1 / a if first else math.sqrt(6 / a) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


def siren(width, depth):
    hidden = [Sine(width, width) for _ in range(depth - 1)]
    return nn.Sequential(Sine(3, width, first=True), *hidden, nn.Linear(width, 1))


def phantom(x):
    """Ellipsoids of different density, smooth at their borders."""
    parts = [
        ((0.0, 0.0, 0.0), (0.7, 0.9, 0.8), 0.6),
        ((0.2, 0.1, 0.0), (0.2, 0.3, 0.5), -0.3),
        ((-0.3, 0.0, 0.2), (0.15, 0.4, 0.2), 0.4),
        ((0.0, -0.5, -0.2), (0.1, 0.1, 0.3), 0.7),
    ]
    total = torch.zeros(len(x), 1, device=x.device)
    for centre, axes, density in parts:
        r = ((x - x.new_tensor(centre)) / x.new_tensor(axes)).square().sum(1, keepdim=True)
        total += density * torch.sigmoid(20 * (1 - r))
    return total


def grid(side, device):
    line = torch.linspace(-1, 1, side, device=device)
    return torch.stack(torch.meshgrid(line, line, line, indexing="ij"), -1).view(-1, 3)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--side", type=int, default=67)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--depth", type=int, default=5)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--inner", type=int, default=8)
    p.add_argument("--history", type=int, default=20)
    p.add_argument("--slice", type=int, default=301)
    a = p.parse_args()
    torch.manual_seed(2)

    net = siren(a.width, a.depth).to(a.device)
    voxels = grid(a.side, a.device)
    density = phantom(voxels) + 0.01 * torch.randn(len(voxels), 1, device=a.device)
    print(f"{len(voxels)} voxels, {sum(q.numel() for q in net.parameters())} parameters")
    optimizer = torch.optim.LBFGS(
        net.parameters(),
        lr=0.5,
        max_iter=a.inner,
        history_size=a.history,
        line_search_fn="strong_wolfe",
    )
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = (net(voxels) - density).square().mean()
        loss.backward()
        return loss

    began = time.time()
    for outer in range(a.rounds):
        loss = optimizer.step(closure)
        print(
            f"round {outer} loss {loss.item():.6f} after {calls} calls, {time.time() - began:.1f} s"
        )

    line = torch.linspace(-1, 1, a.slice, device=a.device)
    errors = []
    with torch.no_grad():
        for z in (-0.33, 0.01, 0.47):
            y, x = torch.meshgrid(line, line, indexing="ij")
            points = torch.stack([torch.full_like(x, z), y, x], -1).view(-1, 3)
            errors.append((net(points) - phantom(points)).square().mean())
    print("PSNR", -10 * torch.stack(errors).mean().log10().item())
    torch.save(net.state_dict(), "siren.pt")


if __name__ == "__main__":
    main()
