"""Masked autoencoder on pictures of spectra: three quarters of the patches are hidden, a small decoder paints them."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--image", type=int, default=192)
    p.add_argument("--patch", type=int, default=16)
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--depth", type=int, default=12)
    p.add_argument("--decoder-dim", type=int, default=384)
    p.add_argument("--decoder-depth", type=int, default=4)
    p.add_argument("--mask", type=float, default=0.75)
    p.add_argument("--batch", type=int, default=192)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--warmup", type=int, default=8)
    p.add_argument("--lr", type=float, default=1.5e-4)
    return p.parse_args()


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, max(1, dim // 64))
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class MAE(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.patch, self.ratio = a.patch, a.mask
        self.places = (a.image // a.patch) ** 2
        self.embed = nn.Conv2d(3, a.dim, a.patch, stride=a.patch)
        self.pos = nn.Parameter(torch.randn(1, self.places, a.dim) * 0.02)
        self.encoder = nn.Sequential(*[Block(a.dim) for _ in range(a.depth)], nn.LayerNorm(a.dim))
        self.bridge = nn.Linear(a.dim, a.decoder_dim)
        self.hidden = nn.Parameter(torch.zeros(1, 1, a.decoder_dim))
        self.pos2 = nn.Parameter(torch.randn(1, self.places, a.decoder_dim) * 0.02)
        self.decoder = nn.Sequential(*[Block(a.decoder_dim) for _ in range(a.decoder_depth)])
        self.paint = nn.Linear(a.decoder_dim, a.patch**2 * 3)

    def patches(self, x):
        b, c, h, w = x.shape
        p = self.patch
        return (
            x.view(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p * p * c)
        )

    def shuffle(self, x):
        b, n, d = x.shape
        keep = int(n * (1 - self.ratio))
        order = torch.rand(b, n, device=x.device).argsort(1)
        back = order.argsort(1)
        kept = x.gather(1, order[:, :keep, None].expand(-1, -1, d))
        mask = torch.ones(b, n, device=x.device)
        mask[:, :keep] = 0
        return kept, mask.gather(1, back), back

    def forward(self, x):
        tokens = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        kept, mask, back = self.shuffle(tokens)
        z = self.bridge(self.encoder(kept))
        blank = self.hidden.expand(z.size(0), self.places - z.size(1), -1).to(z.dtype)
        z = torch.cat([z, blank], 1).gather(1, back[..., None].expand(-1, -1, z.size(2)))
        painted = self.paint(self.decoder(z + self.pos2))
        target = self.patches(x)
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        target = (target - mean) / (var + 1e-6).sqrt()
        loss = ((painted - target) ** 2).mean(-1)
        return (loss * mask).sum() / mask.sum(), painted, mask


def pictures(count, size, device, generator):
    t = torch.linspace(0, 6.28, size)
    f = torch.rand(count, 3, 2, generator=generator) * 8 + 1
    waves = torch.sin(f[..., :1] * t)[..., None] * torch.cos(f[..., 1:] * t)[..., None, :]
    return waves.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else waves


def main():
    a = parse()
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(5)
    model = MAE(a).to(device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": decay, "weight_decay": 0.05},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.95))

    def rate(step):
        if step < a.warmup:
            return (step + 1) / a.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - a.warmup) / max(1, a.steps - a.warmup)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for step in range(a.steps):
        x = pictures(a.batch, a.image, device, generator)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss, _, _ = model(x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}")
    model.eval()
    with torch.no_grad():
        x = pictures(16, a.image, device, generator)
        loss, painted, mask = model(x)
        mixed = model.patches(x) * (1 - mask[..., None]) + painted * mask[..., None]
    torch.save({"encoder": model.encoder.state_dict(), "shown": mixed.cpu()}, "mae.pt")
    print(f"last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
