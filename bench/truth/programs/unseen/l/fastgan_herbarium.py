"""FastGAN on herbarium sheets at 256 px: skip-layer excitation, self-supervised discriminator with small decoders, differentiable augmentation, EMA generator."""

import copy
import os
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

NZ = int(os.getenv("NZ", "256"))
NGF = int(os.getenv("NGF", "64"))
BATCH = int(os.getenv("BATCH", "20"))
ITERS = int(os.getenv("ITERS", "45"))


def conv(*a, **k):
    return spectral_norm(nn.Conv2d(*a, **k))


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.weight * torch.randn(x.size(0), 1, x.size(2), x.size(3), device=x.device)


def up_block(cin, cout):
    return nn.Sequential(
        nn.Upsample(scale_factor=2),
        conv(cin, 2 * cout, 3, 1, 1, bias=False),
        nn.BatchNorm2d(2 * cout),
        nn.GLU(1),
    )


def up_comp(cin, cout):
    return nn.Sequential(
        nn.Upsample(scale_factor=2),
        conv(cin, 2 * cout, 3, 1, 1, bias=False),
        Noise(),
        nn.BatchNorm2d(2 * cout),
        nn.GLU(1),
        conv(cout, 2 * cout, 3, 1, 1, bias=False),
        Noise(),
        nn.BatchNorm2d(2 * cout),
        nn.GLU(1),
    )


class SLE(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.main = nn.Sequential(
            nn.AdaptiveAvgPool2d(4),
            conv(cin, cout, 4, bias=False),
            nn.SiLU(),
            conv(cout, cout, 1, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, low, high):
        return high * self.main(low)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        c = {4: 16, 8: 8, 16: 4, 32: 2, 64: 2, 128: 1, 256: 0.5}
        n = {k: int(v * NGF) for k, v in c.items()}
        self.init = nn.Sequential(
            spectral_norm(nn.ConvTranspose2d(NZ, n[4] * 2, 4, bias=False)),
            nn.BatchNorm2d(n[4] * 2),
            nn.GLU(1),
        )
        self.f8, self.f16 = up_comp(n[4], n[8]), up_block(n[8], n[16])
        self.f32, self.f64 = up_comp(n[16], n[32]), up_block(n[32], n[64])
        self.f128, self.f256 = up_comp(n[64], n[128]), up_block(n[128], n[256])
        self.s64, self.s128, self.s256 = SLE(n[4], n[64]), SLE(n[8], n[128]), SLE(n[16], n[256])
        self.small, self.big = conv(n[128], 3, 1), conv(n[256], 3, 3, 1, 1)

    def forward(self, z):
        x4 = self.init(z.view(-1, NZ, 1, 1))
        x8 = self.f8(x4)
        x16 = self.f16(x8)
        x64 = self.s64(x4, self.f64(self.f32(x16)))
        x128 = self.s128(x8, self.f128(x64))
        x256 = self.s256(x16, self.f256(x128))
        return torch.tanh(self.big(x256)), torch.tanh(self.small(x128))


def down(cin, cout):
    return nn.Sequential(
        conv(cin, cout, 4, 2, 1, bias=False),
        nn.BatchNorm2d(cout),
        nn.LeakyReLU(0.2, True),
        conv(cout, cout, 3, 1, 1, bias=False),
        nn.BatchNorm2d(cout),
        nn.LeakyReLU(0.2, True),
    )


class SimpleDecoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.main = nn.Sequential(
            nn.AdaptiveAvgPool2d(8),
            up_block(c, NGF * 2),
            up_block(NGF * 2, NGF),
            up_block(NGF, NGF // 2),
            up_block(NGF // 2, NGF // 2),
            conv(NGF // 2, 3, 3, 1, 1),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        n = NGF
        self.start = nn.Sequential(
            conv(3, n, 3, 1, 1),
            nn.LeakyReLU(0.2, True),
            conv(n, n, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, True),
        )
        self.d64, self.d32, self.d16, self.d8 = (
            down(n, 2 * n),
            down(2 * n, 4 * n),
            down(4 * n, 8 * n),
            down(8 * n, 8 * n),
        )
        self.se32, self.se16 = SLE(n, 4 * n), SLE(2 * n, 8 * n)
        self.out = nn.Sequential(
            conv(8 * n, 8 * n, 1, bias=False), nn.LeakyReLU(0.2, True), conv(8 * n, 1, 4)
        )
        self.dec_big, self.dec_part = SimpleDecoder(8 * n), SimpleDecoder(8 * n)

    def forward(self, x, real=False, part=0):
        f = self.start(x)
        f64 = self.d64(f)
        f32 = self.se32(f, self.d32(f64))
        f16 = self.se16(f64, self.d16(f32))
        f8 = self.d8(f16)
        score = self.out(f8).flatten()
        if not real:
            return score
        y, z = divmod(part, 2)
        crop = f16[:, :, 8 * y : 8 * y + 8, 8 * z : 8 * z + 8]
        return score, self.dec_big(f8), self.dec_part(crop)


def augment(x):
    x = x + torch.rand(x.size(0), 1, 1, 1, device=x.device) - 0.5
    mean = x.mean((1, 2, 3), keepdim=True)
    x = (x - mean) * (torch.rand(x.size(0), 1, 1, 1, device=x.device) + 0.5) + mean
    dy, dx = random.randint(-32, 32), random.randint(-32, 32)
    x = F.pad(x, (32, 32, 32, 32))
    return x[:, :, 32 + dy : 32 + dy + 256, 32 + dx : 32 + dx + 256]


def sheets(n, device):
    base = torch.rand(n, 3, 16, 16, device=device)
    return (
        F.interpolate(base, size=256, mode="bicubic", align_corners=False)
        .mul(2)
        .sub(1)
        .clamp(-1, 1)
    )


def main():
    torch.manual_seed(11)
    random.seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    G, D = Generator().to(device), Discriminator().to(device)
    ema = {k: v.detach().clone() for k, v in G.state_dict().items()}
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for it in range(ITERS):
        real = sheets(BATCH, device)
        fake, fake_small = G(torch.randn(BATCH, NZ, device=device))
        part = random.randint(0, 3)

        opt_d.zero_grad()
        shown = augment(real)
        score, whole, piece = D(shown, real=True, part=part)
        y, x = divmod(part, 2)
        target = F.interpolate(
            shown[:, :, 128 * y : 128 * y + 128, 128 * x : 128 * x + 128], size=128
        )
        recon = F.l1_loss(whole, F.interpolate(shown, size=128)) + F.l1_loss(piece, target)
        loss_real = F.relu(1 - score).mean() + recon
        loss_real.backward()
        loss_fake = F.relu(1 + D(augment(fake.detach()))).mean()
        loss_fake.backward()
        opt_d.step()

        opt_g.zero_grad()
        loss_g = -D(augment(fake)).mean() + 0.1 * F.mse_loss(F.avg_pool2d(fake, 2), fake_small)
        loss_g.backward()
        opt_g.step()
        with torch.no_grad():
            for k, v in G.state_dict().items():
                if v.dtype.is_floating_point:
                    ema[k].lerp_(v, 0.001)
                else:
                    ema[k].copy_(v)
        if it % 15 == 0:
            print(
                f"{it}: D {loss_real.item() + loss_fake.item():.3f} (rec {recon.item():.3f}) G {loss_g.item():.3f}"
            )
    backup = copy.deepcopy(G.state_dict())
    G.load_state_dict(ema)
    with torch.no_grad():
        pictures, _ = G(torch.randn(2 * BATCH, NZ, device=device))
    G.load_state_dict(backup)
    print("pictures", tuple(pictures.shape), pictures.std().item())


if __name__ == "__main__":
    main()
