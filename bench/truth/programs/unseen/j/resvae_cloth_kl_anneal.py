"""Convolutional VAE with residual blocks on pictures of cloth. KL weight is annealed, samples at the end."""

import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim


@dataclass
class Settings:
    size: int = 128
    channels: int = 64
    latent: int = 256
    batch: int = 64
    steps: int = 28
    warmup: int = 20
    lr: float = 5e-4
    samples: int = 144
    seed: int = 77


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(
            nn.GroupNorm(8, c),
            nn.SiLU(),
            nn.Conv2d(c, c, 3, padding=1),
            nn.GroupNorm(8, c),
            nn.SiLU(),
            nn.Conv2d(c, c, 3, padding=1),
        )

    def forward(self, x):
        return x + self.net(x)


class Encoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        c = s.channels
        layers = [nn.Conv2d(3, c, 3, padding=1)]
        for mult in (1, 2, 4, 4):
            layers += [Res(c), nn.Conv2d(c, s.channels * mult, 4, 2, 1)]
            c = s.channels * mult
            layers += [Res(c)]
        self.net = nn.Sequential(*layers)
        self.mu = nn.Linear(c * (s.size // 16) ** 2, s.latent)
        self.logvar = nn.Linear(c * (s.size // 16) ** 2, s.latent)

    def forward(self, x):
        h = self.net(x).flatten(1)
        return self.mu(h), self.logvar(h).clamp(-10, 10)


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.side = s.size // 16
        self.c0 = c = s.channels * 4
        self.fc = nn.Linear(s.latent, c * self.side**2)
        layers = []
        for mult in (4, 2, 1, 1):
            layers += [Res(c), nn.ConvTranspose2d(c, s.channels * mult, 4, 2, 1)]
            c = s.channels * mult
            layers += [Res(c)]
        layers += [nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1)]
        self.net = nn.Sequential(*layers)

    def forward(self, z):
        h = self.fc(z).view(-1, self.c0, self.side, self.side)
        return self.net(h)


class VAE(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.enc, self.dec = Encoder(s), Decoder(s)

    def forward(self, x):
        mu, logvar = self.enc(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def weave(n, size):
    """sums of two gratings"""
    t = np.linspace(0, 2 * np.pi, size, dtype=np.float32)
    fx = np.random.uniform(2, 20, (n, 3, 1, 1)).astype(np.float32)
    fy = np.random.uniform(2, 20, (n, 3, 1, 1)).astype(np.float32)
    img = 0.5 + 0.25 * (np.sin(fx * t[None, None, None, :]) + np.sin(fy * t[None, None, :, None]))
    return torch.from_numpy(img)


def train(s):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VAE(s).to(device)
    opt = optim.Adamax(model.parameters(), lr=s.lr)
    data = weave(s.batch * 6, s.size)
    for step in range(1, s.steps + 1):
        pick = torch.from_numpy(np.random.choice(len(data), s.batch, replace=False))
        x = data[pick].to(device)
        recon, mu, logvar = model(x)
        nll = F.mse_loss(recon, x, reduction="sum") / s.batch
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        beta = min(1.0, step / s.warmup)
        loss = nll + beta * kl
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 200.0)
        opt.step()
        if step % 7 == 0 or step == 1:
            print(f"{step:4d} nll {nll.item():10.2f} kl {kl.item():9.2f} beta {beta:.2f}")

    model.eval()
    with torch.no_grad():
        z = torch.randn(s.samples, s.latent, device=device)
        out = model.dec(z).clamp(0, 1).cpu()
    print("samples", tuple(out.shape), f"mean {out.mean():.3f} std {out.std():.3f}")


if __name__ == "__main__":
    cfg = Settings()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    train(cfg)
