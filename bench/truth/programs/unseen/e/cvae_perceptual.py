"""A conditional VAE on pictures with a perceptual loss of a frozen VGG-16; a sheet of every class at the end."""

import os

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import vgg16

SIDE = int(os.environ.get("SIDE", "128"))
BATCH = int(os.environ.get("BATCH", "48"))
IMAGES = int(os.environ.get("IMAGES", "2020"))
EPOCHS = int(os.environ.get("EPOCHS", "2"))
WIDTH = int(os.environ.get("WIDTH", "64"))
PER_CLASS = int(os.environ.get("PER_CLASS", "32"))
LATENT, CLASSES = 256, 10
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class ResBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(8, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x):
        return x + self.body(x)


class CVAE(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTH
        self.label = nn.Embedding(CLASSES, 64)
        self.encoder = nn.Sequential(
            nn.Conv2d(3, w, 3, padding=1),
            ResBlock(w),
            nn.Conv2d(w, 2 * w, 4, 2, 1),
            ResBlock(2 * w),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1),
            ResBlock(4 * w),
            nn.Conv2d(4 * w, 4 * w, 4, 2, 1),
            nn.Flatten(),
        )
        self.cells = SIDE // 8
        flat = 4 * w * self.cells**2
        self.to_stats = nn.Linear(flat + 64, 2 * LATENT)
        self.from_latent = nn.Linear(LATENT + 64, flat)
        self.decoder = nn.Sequential(
            nn.Upsample(scale_factor=2),
            nn.Conv2d(4 * w, 4 * w, 3, padding=1),
            ResBlock(4 * w),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(4 * w, 2 * w, 3, padding=1),
            ResBlock(2 * w),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * w, w, 3, padding=1),
            ResBlock(w),
            nn.Conv2d(w, 3, 3, padding=1),
            nn.Sigmoid(),
        )

    def encode(self, x, y):
        h = torch.cat([self.encoder(x), self.label(y)], 1)
        return self.to_stats(h).chunk(2, 1)

    def decode(self, z, y):
        h = self.from_latent(torch.cat([z, self.label(y)], 1))
        return self.decoder(h.view(-1, 4 * WIDTH, self.cells, self.cells))

    def forward(self, x, y):
        mu, logvar = self.encode(x, y)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z, y), mu, logvar


class Perceptual(nn.Module):
    def __init__(self, upto=16):
        super().__init__()
        self.features = vgg16(weights=None).features[:upto].eval()
        for p in self.features.parameters():
            p.requires_grad = False

    def forward(self, a, b):
        loss = 0.0
        for layer in self.features:
            a, b = layer(a), layer(b)
            if isinstance(layer, nn.MaxPool2d):
                loss = loss + F.l1_loss(a, b)
        return loss


def main():
    torch.manual_seed(1)
    labels = torch.randint(0, CLASSES, (IMAGES,))
    images = torch.rand(IMAGES, 3, SIDE, SIDE) * 0.3 + labels.view(-1, 1, 1, 1) / 20
    loader = DataLoader(TensorDataset(images, labels), BATCH, shuffle=True)
    model, perceptual = CVAE().to(device), Perceptual().to(device)
    optimizer = optim.Adam(model.parameters(), lr=2e-4)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        train_loss = 0
        beta = min(1.0, epoch / EPOCHS)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            recon, mu, logvar = model(x, y)
            kld = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
            loss = F.mse_loss(recon, x) + 0.1 * perceptual(recon, x) + beta * 1e-3 * kld
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        print(f"====> epoch {epoch}: average loss {train_loss / len(loader):.4f}")
    with torch.no_grad():
        y = torch.arange(CLASSES, device=device).repeat_interleave(PER_CLASS)
        sheet = model.decode(torch.randn(len(y), LATENT, device=device), y)
        print("sheet", tuple(sheet.shape), sheet.mean().item())
    torch.save({"model": model.state_dict(), "sheet": sheet.cpu()}, "cvae.pt")


if __name__ == "__main__":
    main()
