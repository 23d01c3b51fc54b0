"""Noise2Noise denoising of fluorescence stacks with a residual U-Net; whole frames at the end."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class Down(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1, padding_mode="reflect")
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.1)
        return F.leaky_relu(self.c2(x), 0.1)


class DenoiseUNet(nn.Module):
    def __init__(self, base=48, levels=4):
        super().__init__()
        ch = [base * min(2**i, 4) for i in range(levels)]
        self.enc = nn.ModuleList([Down(1 if i == 0 else ch[i - 1], c) for i, c in enumerate(ch)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(ch[i], ch[i - 1], 2, stride=2) for i in range(levels - 1, 0, -1)]
        )
        self.dec = nn.ModuleList([Down(2 * ch[i - 1], ch[i - 1]) for i in range(levels - 1, 0, -1)])
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skips, h = [], x
        for i, e in enumerate(self.enc):
            h = e(h)
            if i + 1 < len(self.enc):
                skips.append(h)
                h = F.avg_pool2d(h, 2)
        for up, dec in zip(self.up, self.dec):
            h = dec(torch.cat([up(h), skips.pop()], 1))
        return x + self.out(h)


def frames(n, size):
    """Blobs on a dark ground."""
    small = torch.rand(n, 1, size // 16, size // 16).pow(6)
    return F.interpolate(small, size=(size, size), mode="bicubic", align_corners=False).clamp(0, 1)


def corrupt(clean, peak=30.0, read=0.02):
    return torch.poisson(clean * peak) / peak + read * torch.randn_like(clean)


def crops(clean, batch, size):
    idx = torch.randint(0, clean.shape[0], (batch,))
    top = torch.randint(0, clean.shape[2] - size + 1, (batch,))
    left = torch.randint(0, clean.shape[3] - size + 1, (batch,))
    return torch.stack(
        [
            clean[i, :, t : t + size, l : l + size]
            for i, t, l in zip(idx.tolist(), top.tolist(), left.tolist())
        ]
    )


def psnr(a, b):
    return -10 * math.log10(F.mse_loss(a, b).item() + 1e-12)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frame", type=int, default=1024)
    ap.add_argument("--patch", type=int, default=128)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--eval-every", type=int, default=30)
    ap.add_argument("--base", type=int, default=48)
    args = ap.parse_args()
    device = torch.device("cuda")

    clean = frames(12, args.frame)
    held = frames(3, args.frame)
    net = DenoiseUNet(args.base).to(device)
    opt = torch.optim.Adamax(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=args.eval_every)
    for step in range(1, args.steps + 1):
        patch = crops(clean, args.batch, args.patch).to(device)
        a, b = corrupt(patch), corrupt(patch)
        loss = F.smooth_l1_loss(net(a), b, beta=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.5f}")
        if step % args.eval_every == 0:
            net.eval()
            with torch.no_grad():
                for k, frame in enumerate(held):
                    f = frame[None].to(device)
                    noisy = corrupt(f)
                    restored = net(noisy)
                    print(f"   frame {k}: psnr {psnr(noisy, f):.2f} -> {psnr(restored, f):.2f}")
            net.train()
            torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "step": step}, "n2n.ckpt")


if __name__ == "__main__":
    main()
