"""Convolutional VAE with a VampPrior (the prior is a mixture over learned pseudo-inputs), KL warm-up, importance-sampled likelihood at the end."""

import math

import torch
import torch.nn.functional as F
from torch import nn

SIDE = 96
LATENT = 64
PSEUDO = 256
BATCH = 256
STEPS = 50
IMPORTANCE = 100


def log_normal(z, mean, logvar):
    return -0.5 * (math.log(2 * math.pi) + logvar + (z - mean) ** 2 / logvar.exp())


class GatedConv(nn.Module):
    def __init__(self, cin, cout, stride=1, up=False):
        super().__init__()
        make = nn.ConvTranspose2d if up else nn.Conv2d
        k, p = (4, 1) if up else (3, 1)
        self.h = make(cin, cout, k, stride, p)
        self.g = make(cin, cout, k, stride, p)

    def forward(self, x):
        return self.h(x) * torch.sigmoid(self.g(x))


class VampVAE(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        w = width
        self.encoder = nn.Sequential(
            GatedConv(1, w),
            GatedConv(w, w, 2),
            GatedConv(w, 2 * w),
            GatedConv(2 * w, 2 * w, 2),
            GatedConv(2 * w, 2 * w),
            GatedConv(2 * w, 16, 2),
            nn.Flatten(),
        )
        flat = 16 * (SIDE // 8) ** 2
        self.mean, self.logvar = nn.Linear(flat, LATENT), nn.Linear(flat, LATENT)
        self.lift = nn.Linear(LATENT, flat)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (16, SIDE // 8, SIDE // 8)),
            GatedConv(16, 2 * w, 2, up=True),
            GatedConv(2 * w, 2 * w),
            GatedConv(2 * w, w, 2, up=True),
            GatedConv(w, w),
            GatedConv(w, w, 2, up=True),
            nn.Conv2d(w, 1, 1),
        )
        self.pseudo = nn.Parameter(torch.rand(PSEUDO, 1, SIDE, SIDE))

    def encode(self, x):
        h = self.encoder(x)
        return self.mean(h), F.hardtanh(self.logvar(h), -6.0, 2.0)

    def log_prior(self, z):
        mean, logvar = self.encode(self.pseudo.clamp(0, 1))
        each = log_normal(z[:, None], mean[None], logvar[None]).sum(-1)
        return torch.logsumexp(each, dim=1) - math.log(PSEUDO)

    def forward(self, x):
        mean, logvar = self.encode(x)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        logits = self.decoder(self.lift(z))
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(
            (1, 2, 3)
        )
        kl = log_normal(z, mean, logvar).sum(-1) - self.log_prior(z)
        return reconstruction, kl


def glyphs(n, device):
    coarse = torch.rand(n, 1, 12, 12, device=device)
    return (F.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear") > 0.55).float()


def main():
    torch.manual_seed(73)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VampVAE().to(device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        beta = min(1.0, step / (0.5 * STEPS))
        reconstruction, kl = model(glyphs(BATCH, device))
        loss = (reconstruction + beta * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} re {reconstruction.mean():.1f} kl {kl.mean():.2f} beta {beta:.2f}")

    model.eval()
    with torch.no_grad():
        bounds = []
        for picture in glyphs(4, device):
            many = picture[None].expand(IMPORTANCE, -1, -1, -1)
            re, kl = model(many)
            bounds.append(torch.logsumexp(-(re + kl), 0) - math.log(IMPORTANCE))
    print("log p(x) about", torch.stack(bounds).mean().item())


if __name__ == "__main__":
    main()
