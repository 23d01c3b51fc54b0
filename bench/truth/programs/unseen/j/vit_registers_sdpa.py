"""ViT by hand with register tokens, QK norm, LayerScale and F.scaled_dot_product_attention."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class MHSA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.qn, self.kn = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(b, n, 3, self.heads, d // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        q, k = self.qn(q).to(v.dtype), self.kn(k).to(v.dtype)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MHSA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.g1, self.g2 = (
            nn.Parameter(1e-4 * torch.ones(dim)),
            nn.Parameter(1e-4 * torch.ones(dim)),
        )
        self.rate = drop_path

    def drop(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        return x * torch.empty(len(x), 1, 1, device=x.device, dtype=x.dtype).bernoulli_(keep) / keep

    def forward(self, x):
        x = x + self.drop(self.g1 * self.attn(self.norm1(x)))
        return x + self.drop(self.g2 * self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, size, patch, dim, depth, heads, registers, classes):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.extra = nn.Parameter(torch.randn(1, 1 + registers, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads, 0.1 * i / depth) for i in range(depth)])
        self.norm, self.fc = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        x = torch.cat([self.extra.expand(len(x), -1, -1).to(x.dtype), x], dim=1)
        for blk in self.blocks:
            x = blk(x)
        return self.fc(self.norm(x[:, 0]))


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--size", type=int, default=256)
    ap.add_argument("--dim", type=int, default=768)
    ap.add_argument("--depth", type=int, default=12)
    ap.add_argument("--batch", type=int, default=288)
    ap.add_argument("--steps", type=int, default=18)
    opt = ap.parse_args()
    random.seed(99)
    np.random.seed(99)
    torch.manual_seed(99)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = ViT(opt.size, 16, opt.dim, opt.depth, opt.dim // 64, 4, 1000).to(dev)
    optim = torch.optim.AdamW(
        net.parameters(), lr=1e-3, weight_decay=0.05, fused=dev.type == "cuda"
    )
    for i in range(opt.steps):
        img = torch.randn(opt.batch, 3, opt.size, opt.size, device=dev)
        lab = torch.randint(0, 1000, (opt.batch,), device=dev)
        with torch.autocast(dev.type, torch.bfloat16):
            loss = F.cross_entropy(net(img), lab)
        loss.backward()
        gn = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optim.step()
        optim.zero_grad()
        if i % 6 == 0:
            print(f"it {i} loss {loss.item():.3f} gnorm {gn.item():.3f}")
