"""Noise2Noise: a compiled U-Net learns to clean pictures from pairs of noisy ones, in bf16; whole pictures after it."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, count, size, sigma=0.2):
        self.count, self.size, self.sigma = count, size, sigma

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        coarse = torch.rand(1, 3, 12, 12, generator=g)
        clean = F.interpolate(coarse, size=(self.size, self.size), mode="bicubic")[0]
        first = clean + self.sigma * torch.randn(clean.shape, generator=g)
        second = clean + self.sigma * torch.randn(clean.shape, generator=g)
        return first, second, clean


class ResBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, cin), nn.GroupNorm(8, cout)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width, levels):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        c = width
        for _ in range(levels):
            self.down.append(nn.ModuleList([ResBlock(c, 2 * c), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)]))
            c *= 2
        self.middle = ResBlock(c, c)
        for _ in range(levels):
            self.up.append(nn.ModuleList([nn.ConvTranspose2d(c, c, 2, 2), ResBlock(2 * c, c // 2)]))
            c //= 2
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        h, kept = self.enter(x), []
        for block, shrink in self.down:
            h = block(h)
            kept.append(h)
            h = shrink(h)
        h = self.middle(h)
        for grow, block in self.up:
            h = block(torch.cat([grow(h), kept.pop()], 1))
        return x + self.leave(h)


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a.float().clamp(0, 1), b.clamp(0, 1)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=640)
    p.add_argument("--size", type=int, default=192)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--levels", type=int, default=3)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--no-compile", dest="compile", action="store_false")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Noisy(a.images, a.size), a.batch, shuffle=True, num_workers=4, drop_last=True
    )
    net = UNet(a.width, a.levels).to(device)
    model = torch.compile(net) if a.compile else net
    optimizer = torch.optim.AdamW(net.parameters(), lr=a.lr, fused=device.type == "cuda")
    for epoch in range(a.epochs):
        began, total = time.perf_counter(), 0.0
        for first, second, _ in loader:
            first, second = first.to(device), second.to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.smooth_l1_loss(model(first).float(), second, beta=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.5f}, {time.perf_counter() - began:.1f} s")
    net.eval()
    scores = []
    with torch.no_grad():
        for i in range(4):
            first, _, clean = Noisy(10, a.size * 2)[i]
            with torch.autocast(device.type, dtype=torch.bfloat16):
                scores.append(psnr(net(first[None].to(device)), clean[None].to(device)))
    print(f"PSNR {torch.stack(scores).mean().item():.2f} dB")
    torch.save(net.state_dict(), "n2n.pt")


if __name__ == "__main__":
    main()
