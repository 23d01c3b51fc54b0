"""Unconditional pixel diffusion on tiles: cosine schedule, EMA copy, DDIM sampling from the EMA weights."""

import copy
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Config:
    size = 64
    base = 128
    mults = (1, 2, 2, 4)
    attn_at = (2, 3)
    batch = 144
    steps = 24
    timesteps = 1000
    ddim_steps = 12
    samples = 100
    lr = 2e-4
    ema = 0.999


def embed_time(t, dim):
    freq = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    a = t.float()[:, None] * freq[None]
    return torch.cat([a.sin(), a.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(16, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(16, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.t = nn.Linear(tdim, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.dropout(F.silu(self.n2(h)), 0.1, self.training))


class Attn(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(16, c),
            nn.Conv2d(c, 3 * c, 1),
            nn.Conv2d(c, c, 1),
        )

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (
            self.qkv(self.norm(x))
            .view(b, 3, self.heads, c // self.heads, h * w)
            .transpose(-1, -2)
            .unbind(1)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.base = cfg.base
        td = cfg.base * 4
        self.time = nn.Sequential(nn.Linear(cfg.base, td), nn.SiLU(), nn.Linear(td, td))
        self.inp = nn.Conv2d(3, cfg.base, 3, padding=1)
        ch = [cfg.base * m for m in cfg.mults]
        self.down, self.pool, c = nn.ModuleList(), nn.ModuleList(), cfg.base
        for i, o in enumerate(ch):
            self.down.append(
                nn.ModuleList(
                    [
                        ResBlock(c, o, td),
                        ResBlock(o, o, td),
                        Attn(o) if i in cfg.attn_at else nn.Identity(),
                    ]
                )
            )
            self.pool.append(nn.Conv2d(o, o, 3, 2, 1) if i + 1 < len(ch) else nn.Identity())
            c = o
        self.mid1, self.mid_attn, self.mid2 = ResBlock(c, c, td), Attn(c), ResBlock(c, c, td)
        self.up = nn.ModuleList()
        for i, o in reversed(list(enumerate(ch))):
            self.up.append(
                nn.ModuleList(
                    [
                        ResBlock(c + o, o, td),
                        ResBlock(o, o, td),
                        Attn(o) if i in cfg.attn_at else nn.Identity(),
                    ]
                )
            )
            c = o
        self.out = nn.Sequential(nn.GroupNorm(16, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        t = self.time(embed_time(t, self.base))
        x, skips = self.inp(x), []
        for (a, b, at), pool in zip(self.down, self.pool):
            x = at(b(a(x, t), t))
            skips.append(x)
            x = pool(x)
        x = self.mid2(self.mid_attn(self.mid1(x, t)), t)
        for i, (a, b, at) in enumerate(self.up):
            s = skips.pop()
            if i > 0:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = at(b(a(torch.cat([x, s], 1), t), t))
        return self.out(x)


def alpha_bar(cfg, device):
    s = torch.linspace(0, 1, cfg.timesteps + 1, device=device)
    f = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0]).clamp(1e-5, 1.0)


@torch.no_grad()
def ddim(net, ab, cfg, device):
    x = torch.randn(cfg.samples, 3, cfg.size, cfg.size, device=device)
    ts = torch.linspace(cfg.timesteps, 0, cfg.ddim_steps + 1, device=device).long()
    for t, s in zip(ts[:-1], ts[1:]):
        eps = net(x, t.expand(len(x)))
        x0 = ((x - (1 - ab[t]).sqrt() * eps) / ab[t].sqrt()).clamp(-1, 1)
        x = ab[s].sqrt() * x0 + (1 - ab[s]).sqrt() * eps
    return x


def main(cfg):
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = UNet(cfg).to(device)
    ema = copy.deepcopy(net).eval()
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr)
    ab = alpha_bar(cfg, device)
    tiles = F.interpolate(torch.rand(256, 3, 8, 8), size=cfg.size, mode="bilinear") * 2 - 1
    for step in range(cfg.steps):
        x = tiles[torch.randint(0, len(tiles), (cfg.batch,))].to(device)
        t = torch.randint(1, cfg.timesteps + 1, (cfg.batch,), device=device)
        noise = torch.randn_like(x)
        a = ab[t][:, None, None, None]
        loss = F.mse_loss(net(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            for e, p in zip(ema.parameters(), net.parameters()):
                e.mul_(cfg.ema).add_(p, alpha=1 - cfg.ema)
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    out = ddim(ema, ab, cfg, device)
    print("sampled", tuple(out.shape), f"{out.std().item():.3f}")


if __name__ == "__main__":
    main(Config)
