"""U-Net for mitochondria in electron microscopy, Dice + BCE loss, validation after training."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=48):
        super().__init__()
        w = [base * 2**i for i in range(5)]
        self.downs = nn.ModuleList([double_conv(a, b) for a, b in zip([1] + w[:-1], w)])
        self.ups = nn.ModuleList(
            [nn.ConvTranspose2d(w[i], w[i - 1], 2, 2) for i in range(4, 0, -1)]
        )
        self.decs = nn.ModuleList([double_conv(w[i], w[i - 1]) for i in range(4, 0, -1)])
        self.head = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skips = []
        for i, d in enumerate(self.downs):
            x = d(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, dec in zip(self.ups, self.decs):
            x = dec(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits)
    inter = (p * target).sum(dim=(1, 2, 3))
    return 1 - ((2 * inter + eps) / (p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3)) + eps)).mean()


def slices(n, size, rng):
    yy, xx = np.mgrid[:size, :size].astype(np.float32)
    images, masks = [], []
    for _ in range(n):
        mask = np.zeros((size, size), dtype=np.float32)
        for _ in range(6):
            cy, cx = rng.uniform(0, size, 2)
            a, b = rng.uniform(size / 30, size / 8, 2)
            mask[((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1] = 1
        images.append(mask * 0.5 + rng.normal(0, 0.3, (size, size)).astype(np.float32))
        masks.append(mask)
    return torch.from_numpy(np.stack(images))[:, None], torch.from_numpy(np.stack(masks))[:, None]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=512)
    ap.add_argument("--batch", type=int, default=28)
    ap.add_argument("--iters", type=int, default=20)
    ap.add_argument("--base", type=int, default=48)
    args = ap.parse_args()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    rng = np.random.default_rng(1)
    images, masks = slices(48, args.size, rng)
    val_images, val_masks = slices(12, args.size, rng)
    net = UNet(args.base).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)

    net.train()
    for it in range(args.iters):
        idx = rng.choice(len(images), args.batch, replace=False)
        x, y = images[idx].to(device), masks[idx].to(device)
        k = int(rng.integers(0, 4))
        x, y = torch.rot90(x, k, (2, 3)), torch.rot90(y, k, (2, 3))
        logits = net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y) + dice_loss(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 0:
            print(f"iter {it} loss {loss.item():.4f}")

    net.eval()
    with torch.no_grad():
        scores = []
        for i in range(0, len(val_images), 4):
            logits = net(val_images[i : i + 4].to(device))
            scores.append(
                1
                - dice_loss((logits > 0).float() * 40 - 20, val_masks[i : i + 4].to(device)).item()
            )
    print(f"validation dice {np.mean(scores):.4f}")


if __name__ == "__main__":
    main()
