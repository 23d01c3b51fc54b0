"""Glacier fronts in radar tiles: a compact U-Net, torch.compile, fp32 with focal loss."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Conv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)

    def forward(self, x):
        x = F.leaky_relu(self.n1(self.c1(x)), 0.1)
        return F.leaky_relu(self.n2(self.c2(x)), 0.1)


class GlacierUNet(nn.Module):
    def __init__(self, w, classes=4):
        super().__init__()
        self.d1, self.d2, self.d3 = Conv(2, w), Conv(w, 2 * w), Conv(2 * w, 4 * w)
        self.mid = Conv(4 * w, 8 * w)
        self.u3, self.u2, self.u1 = Conv(12 * w, 4 * w), Conv(6 * w, 2 * w), Conv(3 * w, w)
        self.out = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.avg_pool2d(a, 2))
        c = self.d3(F.avg_pool2d(b, 2))
        x = self.mid(F.avg_pool2d(c, 2))
        for skip, block in ((c, self.u3), (b, self.u2), (a, self.u1)):
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
            x = block(torch.cat((x, skip), dim=1))
        return self.out(x)


def focal(logits, target, gamma=2.0):
    logp = F.log_softmax(logits, dim=1)
    nll = F.nll_loss(logp, target, reduction="none")
    return ((1 - (-nll).exp()) ** gamma * nll).mean()


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--tile", type=int, default=320)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--lr", type=float, default=1e-3)
    return p.parse_args()


def main():
    a = parse()
    random.seed(64)
    np.random.seed(64)
    torch.manual_seed(64)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = GlacierUNet(a.width).to(device)
    net = torch.compile(net)
    opt = torch.optim.SGD(net.parameters(), lr=a.lr, momentum=0.99, nesterov=True)
    tiles = torch.randn(72, 2, a.tile, a.tile)
    labels = torch.randint(0, 4, (72, a.tile, a.tile))
    for step in range(a.steps):
        pick = torch.randint(0, 72, (a.batch,))
        x, y = tiles[pick].to(device), labels[pick].to(device)
        loss = focal(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(f"step {step} focal {loss.item():.5f}")


if __name__ == "__main__":
    main()
