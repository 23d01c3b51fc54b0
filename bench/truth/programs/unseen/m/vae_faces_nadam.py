"""Convolutional VAE with residual blocks for faces at 160 x 160: KL warm-up, free bits, NAdam, samples and interpolations at the end."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.utils import make_grid, save_image


class Faces(Dataset):
    def __init__(self, n, side):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return F.interpolate(
            torch.rand(1, 3, 10, 10, generator=g), self.side, mode="bicubic", align_corners=False
        )[0].clamp(0, 1)


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(
            nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1),
            nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1),
        )  # fmt: skip

    def forward(self, x):
        return x + self.net(x)


class VAE(nn.Module):
    def __init__(self, side, width, latent):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 4 * width, 8 * width]
        self.bottom = side // 16
        flat = 8 * width * self.bottom**2
        down = [nn.Conv2d(3, width, 3, padding=1)]
        for a, b in zip(widths, widths[1:]):
            down += [Res(a), nn.Conv2d(a, b, 4, 2, 1)]
        self.encoder = nn.Sequential(*down, Res(8 * width), nn.SiLU(), nn.Flatten())
        self.to_latent = nn.Linear(flat, 2 * latent)
        self.from_latent = nn.Linear(latent, flat)
        up = [Res(8 * width)]
        for a, b in zip(widths[::-1], widths[-2::-1]):
            up += [nn.ConvTranspose2d(a, b, 4, 2, 1), Res(b)]
        self.decoder = nn.Sequential(
            *up, nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
        )

    def decode(self, z):
        h = self.from_latent(z).view(len(z), -1, self.bottom, self.bottom)
        return torch.sigmoid(self.decoder(h))

    def forward(self, x):
        mean, logvar = self.to_latent(self.encoder(x)).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decode(z), mean, logvar


def loss_terms(x, again, mean, logvar, free):
    rec = F.mse_loss(again, x, reduction="none").sum((1, 2, 3)).mean()
    kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar)
    return rec, kl.mean(0).clamp(min=free).sum()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--device", default="cuda")
    p.add_argument("--side", type=int, default=160)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--latent", type=int, default=256)
    p.add_argument("--batch", type=int, default=48)
    p.add_argument("--images", type=int, default=700)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--beta", type=float, default=2.0)
    p.add_argument("--free-bits", type=float, default=0.05)
    a = p.parse_args()
    torch.manual_seed(2024)

    vae = VAE(a.side, a.width, a.latent).to(a.device)
    optimizer = torch.optim.NAdam(vae.parameters(), lr=5e-4, momentum_decay=4e-3)
    loader = DataLoader(Faces(a.images, a.side), a.batch, shuffle=True, num_workers=2)
    steps, done = a.epochs * len(loader), 0
    for epoch in range(a.epochs):
        sums = torch.zeros(2)
        for x in loader:
            x = x.to(a.device)
            again, mean, logvar = vae(x)
            rec, kl = loss_terms(x, again, mean, logvar, a.free_bits)
            beta = a.beta * min(1.0, done / (0.5 * steps))
            optimizer.zero_grad()
            (rec + beta * kl).backward()
            torch.nn.utils.clip_grad_norm_(vae.parameters(), 100.0)
            optimizer.step()
            done += 1
            sums += torch.tensor([rec.item(), kl.item()])
        rec, kl = (sums / len(loader)).tolist()
        print(f"epoch {epoch}: reconstruction {rec:.1f} KL {kl:.2f} beta {beta:.2f}")

    vae.eval()
    with torch.no_grad():
        samples = vae.decode(torch.randn(64, a.latent, device=a.device))
        ends = torch.randn(2, a.latent, device=a.device)
        between = torch.stack([torch.lerp(ends[0], ends[1], t / 9) for t in range(10)])
        rows = torch.cat([samples, vae.decode(between)])
    save_image(make_grid(rows.cpu(), nrow=10), "faces.png")


if __name__ == "__main__":
    main()
