"""Residual dense network for x4 super-resolution of aerial photos; whole pictures at test time."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

PATCH = 48  # low-resolution patch in training
BATCH = 24
BLOCKS = 12
LAYERS = 6
GROWTH = 32
FEATS = 64
ITERS = 20
TEST_LR = 160  # low-resolution side of test pictures


class DenseLayer(nn.Module):
    def __init__(self, cin):
        super().__init__()
        self.conv = nn.Conv2d(cin, GROWTH, 3, padding=1)

    def forward(self, x):
        return torch.cat([x, F.relu(self.conv(x))], dim=1)


class RDB(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[DenseLayer(FEATS + i * GROWTH) for i in range(LAYERS)])
        self.fuse = nn.Conv2d(FEATS + LAYERS * GROWTH, FEATS, 1)

    def forward(self, x):
        return x + self.fuse(self.layers(x))


class RDN(nn.Module):
    def __init__(self):
        super().__init__()
        self.shallow1 = nn.Conv2d(3, FEATS, 3, padding=1)
        self.shallow2 = nn.Conv2d(FEATS, FEATS, 3, padding=1)
        self.blocks = nn.ModuleList([RDB() for _ in range(BLOCKS)])
        self.gff = nn.Sequential(
            nn.Conv2d(BLOCKS * FEATS, FEATS, 1), nn.Conv2d(FEATS, FEATS, 3, padding=1)
        )
        self.up = nn.Sequential(
            nn.Conv2d(FEATS, FEATS * 4, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(FEATS, FEATS * 4, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(FEATS, 3, 3, padding=1),
        )

    def forward(self, x):
        first = self.shallow1(x)
        h, outs = self.shallow2(first), []
        for block in self.blocks:
            h = block(h)
            outs.append(h)
        return self.up(self.gff(torch.cat(outs, 1)) + first)


def pair(n, lr_side):
    hr = F.interpolate(
        torch.rand(n, 3, lr_side // 2, lr_side // 2), size=lr_side * 4, mode="bicubic"
    ).clamp(0, 1)
    lr = F.interpolate(hr, scale_factor=0.25, mode="bicubic", antialias=True).clamp(0, 1)
    return lr, hr


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a, b)).item()


if __name__ == "__main__":
    random.seed(27)
    np.random.seed(27)
    torch.manual_seed(27)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = RDN().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-4)
    print(f"{sum(p.numel() for p in net.parameters()):,} parameters")
    for it in range(1, ITERS + 1):
        lr, hr = (t.to(device) for t in pair(BATCH, PATCH))
        loss = F.l1_loss(net(lr), hr)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 0:
            print(f"iteration {it}: L1 {loss.item():.4f}")
    net.eval()
    scores = []
    for _ in range(4):
        lr, hr = pair(1, TEST_LR)
        with torch.no_grad():
            sr = net(lr.to(device)).clamp(0, 1)
        scores.append(psnr(sr.cpu(), hr))
    print(f"PSNR {np.mean(scores):.2f} dB")
