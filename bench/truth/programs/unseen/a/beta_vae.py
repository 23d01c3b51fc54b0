"""Convolutional beta-VAE with KL annealing; a grid of samples and a walk through the latent space per epoch."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torchvision.utils import make_grid, save_image


def down(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.LeakyReLU(0.2))


def up(i, o):
    return nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.LeakyReLU(0.2))


class VAE(nn.Module):
    def __init__(self, width, latent, size):
        super().__init__()
        self.width, self.grid = width, size // 16
        flat = width * 8 * self.grid**2
        self.encoder = nn.Sequential(
            down(3, width),
            down(width, width * 2),
            down(width * 2, width * 4),
            down(width * 4, width * 8),
            nn.Flatten(),
        )
        self.fc_mu, self.fc_logvar = nn.Linear(flat, latent), nn.Linear(flat, latent)
        self.fc_up = nn.Linear(latent, flat)
        self.decoder = nn.Sequential(
            up(width * 8, width * 4),
            up(width * 4, width * 2),
            up(width * 2, width),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )

    def encode(self, x):
        h = self.encoder(x)
        return self.fc_mu(h), self.fc_logvar(h)

    def decode(self, z):
        h = self.fc_up(z).view(-1, self.width * 8, self.grid, self.grid)
        return torch.sigmoid(self.decoder(h))

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar


def loss_function(recon, x, mu, logvar, beta):
    bce = F.binary_cross_entropy(recon, x, reduction="sum") / len(x)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / len(x)
    return bce + beta * kld, bce, kld


@torch.no_grad()
def pictures(model, latent, device, folder, epoch, rows):
    model.eval()
    fixed = torch.randn(rows * rows, latent, device=device)
    save_image(make_grid(model.decode(fixed), nrow=rows), folder / f"samples_{epoch}.png")
    start, end = fixed[:rows], fixed[-rows:]
    steps = torch.linspace(0, 1, 10, device=device).view(-1, 1, 1)
    walk = torch.lerp(start[None], end[None], steps).flatten(0, 1)
    save_image(model.decode(walk).cpu(), folder / f"walk_{epoch}.png", nrow=rows)


def main():
    parser = argparse.ArgumentParser(description="beta-VAE")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--images", type=int, default=4300)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--beta", type=float, default=4.0)
    parser.add_argument("--rows", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = Path("vae_out")
    folder.mkdir(exist_ok=True)
    data = TensorDataset(torch.rand(args.images, 3, args.size, args.size))
    loader = DataLoader(
        data, args.batch_size, shuffle=True, num_workers=2, pin_memory=device.type == "cuda"
    )
    model = VAE(args.width, args.latent, args.size).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    for epoch in range(1, args.epochs + 1):
        model.train()
        train_loss = 0
        for batch_idx, (x,) in enumerate(loader):
            x = x.to(device)
            optimizer.zero_grad()
            beta = args.beta * min(1.0, step / 20)
            recon, mu, logvar = model(x)
            loss, bce, kld = loss_function(recon, x, mu, logvar, beta)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
            step += 1
            if batch_idx % 5 == 0:
                done = f"{batch_idx * len(x)}/{len(data)}"
                print(
                    f"epoch {epoch} [{done}] {loss.item():.1f} = {bce:.1f} + {beta:.1f} x {kld:.2f}"
                )
        print(f"====> epoch {epoch} average loss {train_loss / len(loader):.3f}")
        pictures(model, args.latent, device, folder, epoch, args.rows)
    torch.save(model, folder / "vae.pt")


if __name__ == "__main__":
    main()
