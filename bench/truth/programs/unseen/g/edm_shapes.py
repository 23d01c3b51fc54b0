"""Class-conditional diffusion with the EDM preconditioning (Karras et al.), Heun sampler, EMA of the weights.

Gradient accumulation over micro-batches, label dropout for guidance, checkpoint at the end and a resume from it.
"""

import math
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


@dataclass
class Cfg:
    size: int = 64
    classes: int = 10
    base: int = 128
    mult: tuple = (1, 2, 3)
    blocks: int = 2
    attn: tuple = (16,)
    dropout: float = 0.1
    batch: int = 64
    accum: int = 2
    steps: int = 40
    warmup: int = 10
    lr: float = 2e-4
    ema: float = 0.999
    p_uncond: float = 0.1
    sigma_data: float = 0.5
    P_mean: float = -1.2
    P_std: float = 1.2
    samples: int = 64
    sample_steps: int = 12
    guidance: float = 1.5
    ckpt: str = "edm_last.pt"


def shapes_batch(n, cfg, rng):
    """Squares, discs and stripes drawn with numpy; label is kind of shape."""
    s = cfg.size
    imgs = np.zeros((n, s, s, 3), dtype=np.float32) - 1
    labels = rng.integers(0, cfg.classes, n)
    yy, xx = np.mgrid[:s, :s]
    for i, k in enumerate(labels):
        cy, cx, r = rng.uniform(0.3, 0.7, 3) * s
        r *= 0.4
        if k % 3 == 0:
            m = (abs(yy - cy) < r) & (abs(xx - cx) < r)
        elif k % 3 == 1:
            m = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        else:
            m = ((yy + xx * (k + 1) / 4) % 12) < 6
        imgs[i][m] = rng.uniform(-0.5, 1, 3)
    return torch.from_numpy(imgs).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)


def group_norm(c):
    return nn.GroupNorm(32 if c % 32 == 0 else 4, c)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb, dropout, attn):
        super().__init__()
        self.norm1, self.conv1 = group_norm(cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.norm2, self.conv2 = group_norm(cout), nn.Conv2d(cout, cout, 3, padding=1)
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.attn = attn
        if attn:
            self.norm3, self.qkv, self.proj = (
                group_norm(cout),
                nn.Conv2d(cout, 3 * cout, 1),
                nn.Conv2d(cout, cout, 1),
            )

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(emb)[:, :, None, None].chunk(2, 1)
        h = F.silu(self.norm2(h) * (1 + scale) + shift)
        x = (self.skip(x) + self.conv2(self.drop(h))) * math.sqrt(0.5)
        if self.attn:
            b, c, hh, ww = x.shape
            q, k, v = (
                self.qkv(self.norm3(x))
                .reshape(b, 3, 4, c // 4, hh * ww)
                .permute(1, 0, 2, 4, 3)
                .unbind(0)
            )
            a = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, hh, ww)
            x = (x + self.proj(a)) * math.sqrt(0.5)
        return x


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        emb = 4 * cfg.base
        self.base = cfg.base
        self.map = nn.Sequential(nn.Linear(cfg.base, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(cfg.classes + 1, emb)
        self.inp = nn.Conv2d(3, cfg.base, 3, padding=1)
        res, c, skips = cfg.size, cfg.base, [cfg.base]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, m in enumerate(cfg.mult):
            for _ in range(cfg.blocks):
                self.down.append(ResBlock(c, cfg.base * m, emb, cfg.dropout, res in cfg.attn))
                c = cfg.base * m
                skips.append(c)
            if level < len(cfg.mult) - 1:
                self.down.append(nn.Conv2d(c, c, 3, stride=2, padding=1))
                skips.append(c)
                res //= 2
        self.mid = ResBlock(c, c, emb, cfg.dropout, True)
        for level, m in reversed(list(enumerate(cfg.mult))):
            for i in range(cfg.blocks + 1):
                self.up.append(
                    ResBlock(c + skips.pop(), cfg.base * m, emb, cfg.dropout, res in cfg.attn)
                )
                c = cfg.base * m
            if level:
                self.up.append(
                    nn.Sequential(
                        nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(c, c, 3, padding=1)
                    )
                )
                res *= 2
        self.out = nn.Sequential(group_norm(c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, noise, labels):
        freqs = torch.exp(
            -math.log(1000) * torch.arange(self.base // 2, device=x.device) / (self.base // 2)
        )
        ang = noise[:, None] * freqs[None] * 100
        emb = F.silu(self.map(torch.cat([ang.cos(), ang.sin()], 1)) + self.label(labels))
        x = self.inp(x)
        hs = [x]
        for layer in self.down:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
            hs.append(x)
        x = self.mid(x, emb)
        for layer in self.up:
            x = layer(torch.cat([x, hs.pop()], 1), emb) if isinstance(layer, ResBlock) else layer(x)
        return self.out(x)


class EDMPrecond(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.sigma_data = cfg.sigma_data
        self.model = UNet(cfg)

    def forward(self, x, sigma, labels):
        sigma = sigma.float().reshape(-1, 1, 1, 1)
        sd = self.sigma_data
        c_skip = sd**2 / (sigma**2 + sd**2)
        c_out = sigma * sd / (sigma**2 + sd**2).sqrt()
        c_in = 1 / (sd**2 + sigma**2).sqrt()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            f = self.model(c_in * x, sigma.flatten().log() / 4, labels)
        return c_skip * x + c_out * f.float()


def edm_loss(net, x, labels, cfg):
    sigma = (torch.randn(x.shape[0], 1, 1, 1, device=x.device) * cfg.P_std + cfg.P_mean).exp()
    weight = (sigma**2 + cfg.sigma_data**2) / (sigma * cfg.sigma_data) ** 2
    drop = torch.rand(len(labels), device=x.device) < cfg.p_uncond
    labels = torch.where(drop, torch.full_like(labels, cfg.classes), labels)
    denoised = net(x + torch.randn_like(x) * sigma, sigma, labels)
    return (weight * (denoised - x) ** 2).mean()


@torch.no_grad()
def heun_sampler(net, cfg, device, sigma_min=0.002, sigma_max=80, rho=7):
    n = cfg.sample_steps
    t = torch.arange(n, device=device) / (n - 1)
    t = (sigma_max ** (1 / rho) + t * (sigma_min ** (1 / rho) - sigma_max ** (1 / rho))) ** rho
    t = torch.cat([t, torch.zeros_like(t[:1])])
    labels = torch.arange(cfg.samples, device=device) % cfg.classes
    null = torch.full_like(labels, cfg.classes)

    def denoise(x, s):
        both = net(torch.cat([x, x]), s.expand(2 * len(x)), torch.cat([labels, null]))
        cond, uncond = both.chunk(2)
        return uncond + cfg.guidance * (cond - uncond)

    x = torch.randn(cfg.samples, 3, cfg.size, cfg.size, device=device) * t[0]
    for i, (cur, nxt) in enumerate(zip(t[:-1], t[1:])):
        d = (x - denoise(x, cur)) / cur
        x_next = x + (nxt - cur) * d
        if i < n - 1:
            d2 = (x_next - denoise(x_next, nxt)) / nxt
            x_next = x + (nxt - cur) * (d + d2) / 2
        x = x_next
    return x.clamp(-1, 1)


def build(cfg, device):
    net = EDMPrecond(cfg).to(device)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(cfg.ema))
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, betas=(0.9, 0.99))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / cfg.warmup))
    return net, ema, opt, sched


def train(cfg, device, start, stop, net, ema, opt, sched, rng):
    net.train()
    for step in range(start, stop):
        total = 0.0
        for _ in range(cfg.accum):
            x, y = shapes_batch(cfg.batch, cfg, rng)
            loss = edm_loss(net, x.to(device), y.to(device), cfg) / cfg.accum
            loss.backward()
            total += loss.item()
        for p in net.parameters():
            if p.grad is not None:
                torch.nan_to_num(p.grad, nan=0, posinf=1e5, neginf=-1e5, out=p.grad)
        opt.step()
        opt.zero_grad(set_to_none=True)
        sched.step()
        ema.update_parameters(net)
        if step % 10 == 0:
            print(f"step {step} loss {total:.4f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    cfg = Cfg()
    device = torch.device("cuda")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    state = build(cfg, device)
    print(f"{sum(p.numel() for p in state[0].parameters()) / 1e6:.1f}M parameters")
    half = cfg.steps // 2
    train(cfg, device, 0, half, *state, rng)
    torch.save(
        {
            "net": state[0].state_dict(),
            "ema": state[1].state_dict(),
            "opt": state[2].state_dict(),
            "sched": state[3].state_dict(),
            "step": half,
        },
        cfg.ckpt,
    )
    del state

    state = build(cfg, device)
    ckpt = torch.load(cfg.ckpt, map_location=device)
    for part, name in zip(state, ("net", "ema", "opt", "sched")):
        part.load_state_dict(ckpt[name])
    print("resumed from step", ckpt["step"])
    train(cfg, device, ckpt["step"], cfg.steps, *state, rng)
    state[1].eval()
    pictures = heun_sampler(state[1], cfg, device)
    print(
        "sampled",
        tuple(pictures.shape),
        "mean %.3f std %.3f" % (pictures.mean().item(), pictures.std().item()),
    )
    os.remove(cfg.ckpt)
