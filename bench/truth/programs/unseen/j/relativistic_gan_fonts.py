"""
Glyph generator: relativistic average GAN with two Adam optimizers.
The discriminator has spectral norm; it takes two steps for one of the generator.
"""

import logging
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
log = logging.getLogger("glyphs")

CONFIG = {
    "image": 128,
    "latent": 160,
    "g_width": 64,
    "d_width": 64,
    "batch": 96,
    "iters": 20,
    "d_steps": 2,
    "lr_g": 1e-4,
    "lr_d": 2e-4,
}


class UpBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        h = F.interpolate(F.relu(self.bn1(x)), scale_factor=2, mode="nearest")
        h = self.conv1(h)
        h = self.conv2(F.relu(self.bn2(h)))
        return h + self.skip(F.interpolate(x, scale_factor=2, mode="nearest"))


class Generator(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(latent, 16 * width * 4 * 4)
        self.up = nn.Sequential(
            UpBlock(16 * width, 8 * width),
            UpBlock(8 * width, 8 * width),
            UpBlock(8 * width, 4 * width),
            UpBlock(4 * width, 2 * width),
            UpBlock(2 * width, width),
        )
        self.out = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1), nn.Tanh()
        )

    def forward(self, z):
        x = self.fc(z).view(z.size(0), 16 * self.width, 4, 4)
        return self.out(self.up(x))


def down(cin, cout):
    return nn.Sequential(
        spectral_norm(nn.Conv2d(cin, cout, 3, padding=1)),
        nn.LeakyReLU(0.2, inplace=True),
        spectral_norm(nn.Conv2d(cout, cout, 4, 2, 1)),
        nn.LeakyReLU(0.2, inplace=True),
    )


class Discriminator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            down(1, width),
            down(width, 2 * width),
            down(2 * width, 4 * width),
            down(4 * width, 8 * width),
            down(8 * width, 8 * width),
        )
        self.fc = spectral_norm(nn.Linear(8 * width * 4 * 4, 1))

    def forward(self, x):
        return self.fc(self.body(x).flatten(1)).squeeze(1)


def relativistic_loss(a, b):
    """a should look more real than the average of b, and the other way round"""
    return (
        F.binary_cross_entropy_with_logits(a - b.mean(), torch.ones_like(a))
        + F.binary_cross_entropy_with_logits(b - a.mean(), torch.zeros_like(b))
    ) / 2


def real_batches(cfg, device):
    """boxes and bars that pass for letters"""
    rng = np.random.default_rng(5)
    while True:
        imgs = np.full((cfg["batch"], 1, cfg["image"], cfg["image"]), -1.0, dtype=np.float32)
        for i in range(cfg["batch"]):
            for _ in range(4):
                y, x = rng.integers(0, cfg["image"] // 2, 2)
                h, w = rng.integers(3, cfg["image"] // 2, 2)
                imgs[i, 0, y : y + h, x : x + w] *= -1
        yield torch.from_numpy(imgs).to(device)


def main(cfg):
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen = Generator(cfg["latent"], cfg["g_width"]).to(device)
    disc = Discriminator(cfg["d_width"]).to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=cfg["lr_g"], betas=(0.0, 0.9))
    opt_d = torch.optim.Adam(disc.parameters(), lr=cfg["lr_d"], betas=(0.0, 0.9))
    data = real_batches(cfg, device)
    fixed = torch.randn(36, cfg["latent"], device=device)

    for it in range(cfg["iters"]):
        for _ in range(cfg["d_steps"]):
            real = next(data)
            with torch.no_grad():
                fake = gen(torch.randn(cfg["batch"], cfg["latent"], device=device))
            loss_d = relativistic_loss(disc(real), disc(fake))
            opt_d.zero_grad()
            loss_d.backward()
            opt_d.step()

        real = next(data)
        fake = gen(torch.randn(cfg["batch"], cfg["latent"], device=device))
        loss_g = relativistic_loss(disc(fake), disc(real))
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        if it % 5 == 0:
            gen.eval()
            with torch.no_grad():
                sheet = gen(fixed)
            gen.train()
            log.info(
                "iter %d  d %.4f  g %.4f  ink %.3f",
                it,
                loss_d.item(),
                loss_g.item(),
                sheet.mean().item(),
            )


if __name__ == "__main__":
    main(CONFIG)
