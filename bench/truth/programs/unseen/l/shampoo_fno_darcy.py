"""Fourier neural operator for Darcy flow, trained by a Shampoo written here (eigen-decomposed roots every ten steps, momentum, grafting to the gradient norm)."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class Shampoo(torch.optim.Optimizer):
    def __init__(
        self, params, lr=0.01, momentum=0.9, weight_decay=0.0, eps=1e-4, every=10, largest=1024
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                momentum=momentum,
                weight_decay=weight_decay,
                eps=eps,
                every=every,
                largest=largest,
            ),
        )

    @staticmethod
    def root(matrix, power):
        values, vectors = torch.linalg.eigh(matrix)
        return (vectors * values.clamp(min=1e-10).pow(-1.0 / power)) @ vectors.T

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = (
                    p.grad
                    if not group["weight_decay"]
                    else p.grad.add(p, alpha=group["weight_decay"])
                )
                state = self.state[p]
                flat = grad.reshape(grad.shape[0], -1) if grad.ndim > 1 else grad.reshape(-1, 1)
                if not state:
                    state["step"] = 0
                    state["buffer"] = torch.zeros_like(p)
                    state["left"] = state["right"] = None
                    if flat.shape[0] <= group["largest"]:
                        state["left"] = group["eps"] * torch.eye(flat.shape[0], device=p.device)
                    if 1 < flat.shape[1] <= group["largest"]:
                        state["right"] = group["eps"] * torch.eye(flat.shape[1], device=p.device)
                if state["left"] is not None:
                    state["left"].addmm_(flat, flat.T)
                if state["right"] is not None:
                    state["right"].addmm_(flat.T, flat)
                order = 2 * sum(state[k] is not None for k in ("left", "right"))
                if state["step"] % group["every"] == 0:
                    for side in ("left", "right"):
                        if state[side] is not None:
                            state[side + "_root"] = self.root(state[side], max(order, 2))
                update = flat
                if state["left"] is not None:
                    update = state["left_root"] @ update
                if state["right"] is not None:
                    update = update @ state["right_root"]
                update = update * (flat.norm() / (update.norm() + 1e-12))
                state["buffer"].mul_(group["momentum"]).add_(update.reshape(p.shape))
                p.add_(state["buffer"], alpha=-group["lr"])
                state["step"] += 1


class SpectralConv(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width**2)

    def forward(self, x):
        h, w = x.shape[-2:]
        m = self.modes
        spectrum = torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        top, low = torch.view_as_complex(self.weight).unbind(0)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], top)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], low)
        return torch.fft.irfft2(out, s=(h, w))


class FNO(nn.Module):
    def __init__(self, width=64, modes=16, layers=4):
        super().__init__()
        self.lift = nn.Conv2d(3, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.project = nn.Sequential(
            nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, 1, 1)
        )

    def forward(self, a):
        b, _, h, w = a.shape
        y = torch.linspace(0, 1, h, device=a.device).view(1, 1, h, 1).expand(b, 1, h, w)
        x = torch.linspace(0, 1, w, device=a.device).view(1, 1, 1, w).expand(b, 1, h, w)
        v = F.pad(self.lift(torch.cat([a, x, y], 1)), (0, 8, 0, 8))
        for i, (s, l) in enumerate(zip(self.spectral, self.local)):
            v = s(v) + l(v)
            if i < len(self.local) - 1:
                v = F.gelu(v)
        return self.project(v[..., :h, :w])


def darcy(n, grid, gen, device):
    """Piecewise permeability and a smooth stand-in of the pressure."""
    noise = torch.randn(n, 1, grid // 16, grid // 16, generator=gen, device=device)
    smooth = F.interpolate(noise, size=(grid, grid), mode="bicubic", align_corners=False)
    a = torch.where(smooth > 0, 12.0, 3.0)
    u = F.avg_pool2d(F.pad(1 / a, (15, 15, 15, 15), mode="reflect"), 31, stride=1)
    return a / 10, u * 10


def relative(pred, truth):
    return ((pred - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--grid", type=int, default=160)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--modes", type=int, default=16)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--lr", type=float, default=5e-3)
    a = p.parse_args()
    torch.manual_seed(100)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gen = torch.Generator(device=device).manual_seed(100)
    net = FNO(a.width, a.modes).to(device)
    opt = Shampoo(net.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=20, gamma=0.5)
    start = time.time()
    for step in range(1, a.steps + 1):
        k, u = darcy(a.batch, a.grid, gen, device)
        loss = relative(net(k), u)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"step {step} relative L2 {loss.item():.4f} ({time.time() - start:.1f}s)")
    with torch.no_grad():
        for grid in (a.grid, a.grid * 2):  # resolution transfer
            k, u = darcy(a.batch // 2, grid, gen, device)
            print("grid", grid, "test", relative(net(k), u).item())


if __name__ == "__main__":
    main()
