"""Class-conditional diffusion of satellite tiles (80 x 80) with Accelerate in bf16: U-Net with attention, cosine schedule, EMA weights, DDIM sampling with classifier-free guidance."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SatelliteTiles(Dataset):
    def __init__(self, n, side, classes):
        self.n, self.side, self.classes = n, side, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        low = torch.randn(1, 3, 16, 16, generator=g)
        tile = F.interpolate(low, self.side, mode="bilinear")[0].tanh()
        return tile, i % self.classes


class Block(nn.Module):
    def __init__(self, a, b, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, a), nn.Conv2d(a, b, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(32, b), nn.Conv2d(b, b, 3, padding=1)
        self.emb, self.drop = nn.Linear(emb, 2 * b), nn.Dropout(0.1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.emb(F.silu(e))[..., None, None].chunk(2, 1)
        h = self.n2(h) * (1 + scale) + shift
        return self.skip(x) + self.c2(self.drop(F.silu(h)))


class Attention(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(32, c),
            nn.Conv2d(c, 3 * c, 1),
            nn.Conv2d(c, c, 1),
        )
        self.heads = heads

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.heads, c // self.heads, h * w).mT.unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).mT.reshape(b, c, h, w)
        return x + self.out(y)


class UNet(nn.Module):
    def __init__(self, width, mults, classes, attend=(2, 3)):
        super().__init__()
        emb = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(classes + 1, emb)  # the last stands for "no class"
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up, kept, now = nn.ModuleList(), nn.ModuleList(), [width], width
        for level, m in enumerate(mults):
            for _ in range(2):
                attention = Attention(m * width) if level in attend else nn.Identity()
                self.down.append(nn.ModuleList([Block(now, m * width, emb), attention]))
                now = m * width
                kept.append(now)
            if level < len(mults) - 1:
                self.down.append(nn.ModuleList([nn.Conv2d(now, now, 3, 2, 1)]))
                kept.append(now)
        self.middle = nn.ModuleList([Block(now, now, emb), Attention(now), Block(now, now, emb)])
        for level, m in reversed(list(enumerate(mults))):
            for _ in range(3):
                attention = Attention(m * width) if level in attend else nn.Identity()
                self.up.append(nn.ModuleList([Block(now + kept.pop(), m * width, emb), attention]))
                now = m * width
            if level:
                self.up.append(nn.ModuleList([nn.Conv2d(now, now, 3, padding=1)]))
        self.out = nn.Sequential(nn.GroupNorm(32, now), nn.SiLU(), nn.Conv2d(now, 3, 3, padding=1))

    def forward(self, x, t, y):
        half = self.width // 2
        rate = torch.exp(-math.log(10_000) * torch.arange(half, device=x.device) / half)
        angle = t[:, None].float() * rate
        e = self.time(torch.cat([angle.sin(), angle.cos()], 1)) + self.label(y)
        x = self.stem(x)
        kept = [x]
        for parts in self.down:
            x = parts[0](x) if len(parts) == 1 else parts[1](parts[0](x, e))
            kept.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, e)), e)
        for parts in self.up:
            if len(parts) == 1:
                x = parts[0](F.interpolate(x, scale_factor=2.0))
            else:
                x = parts[1](parts[0](torch.cat([x, kept.pop()], 1), e))
        return self.out(x)


def alphas(steps, device):
    t = torch.linspace(0, 1, steps + 1, device=device)
    bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2).square()
    return (bar / bar[0])[1:].clamp(min=1e-4)


@torch.no_grad()
def ddim(model, bar, y, side, none, steps=10, guidance=3.0):
    x = torch.randn(len(y), 3, side, side, device=y.device)
    times = torch.linspace(len(bar) - 1, 0, steps).long().tolist()
    for now, after in zip(times, [*times[1:], None]):
        t = torch.full((2 * len(y),), now, device=y.device)
        both = model(x.repeat(2, 1, 1, 1), t, torch.cat([y, torch.full_like(y, none)])).float()
        with_class, without = both.chunk(2)
        noise = without + guidance * (with_class - without)
        clean = ((x - (1 - bar[now]).sqrt() * noise) / bar[now].sqrt()).clamp(-1, 1)
        ahead = bar[after] if after is not None else torch.ones((), device=y.device)
        x = ahead.sqrt() * clean + (1 - ahead).sqrt() * noise
    return x


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--side", type=int, default=80)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--classes", type=int, default=12)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--samples", type=int, default=36)
    p.add_argument("--precision", default="bf16")
    a = p.parse_args()
    set_seed(8)
    accelerator = Accelerator(mixed_precision=a.precision)
    model = UNet(a.width, (1, 2, 3, 4), a.classes)
    ema = copy.deepcopy(model).to(accelerator.device).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.0)
    loader = DataLoader(
        SatelliteTiles(a.batch * a.steps, a.side, a.classes), a.batch, shuffle=True, num_workers=4
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    bar = alphas(1000, accelerator.device)
    for step, (x, y) in enumerate(loader):
        t = torch.randint(0, 1000, (len(x),), device=x.device)
        y = torch.where(torch.rand(len(x), device=x.device) < 0.1, a.classes, y)
        noise = torch.randn_like(x)
        keep = bar[t].view(-1, 1, 1, 1)
        loss = F.mse_loss(model(keep.sqrt() * x + (1 - keep).sqrt() * noise, t, y).float(), noise)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for e, q in zip(ema.parameters(), accelerator.unwrap_model(model).parameters()):
                e.lerp_(q, 1 - min(0.999, (1 + step) / (10 + step)))
        if step % 6 == 0:
            accelerator.print(f"step {step} loss {loss.item():.4f}")
    y = torch.arange(a.samples, device=accelerator.device) % a.classes
    with accelerator.autocast():
        tiles = ddim(ema, bar, y, a.side, a.classes)
    accelerator.print("samples", tuple(tiles.shape), f"{tiles.std().item():.3f}")


if __name__ == "__main__":
    main()
