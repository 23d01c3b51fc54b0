"""GAN with spectral normalization, hinge losses, two steps of the discriminator and an averaged generator."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import v2
from torchvision.utils import save_image


class UpBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(c_in), nn.BatchNorm2d(c_out)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1)

    def forward(self, x):
        h = F.interpolate(F.relu(self.bn1(x)), scale_factor=2)
        h = self.conv2(F.relu(self.bn2(self.conv1(h))))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class DownBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(c_in, c_out, 3, padding=1))
        self.conv2 = spectral_norm(nn.Conv2d(c_out, c_out, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(c_in, c_out, 1))

    def forward(self, x):
        h = self.conv2(F.leaky_relu(self.conv1(x), 0.2))
        return F.avg_pool2d(F.leaky_relu(h, 0.2), 2) + self.skip(F.avg_pool2d(x, 2))


class Generator(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.width = width
        self.enter = nn.Linear(latent, width * 8 * 16)
        sizes = [8, 8, 4, 2, 1]
        self.blocks = nn.Sequential(
            *[UpBlock(width * a, width * b) for a, b in zip(sizes, sizes[1:], strict=False)]
        )
        self.out = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1), nn.Tanh()
        )

    def forward(self, z):
        return self.out(self.blocks(self.enter(z).view(-1, self.width * 8, 4, 4)))


class Discriminator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.Sequential(
            DownBlock(3, width),
            DownBlock(width, width * 2),
            DownBlock(width * 2, width * 4),
            DownBlock(width * 4, width * 8),
        )
        self.out = spectral_norm(nn.Linear(width * 8, 1))

    def forward(self, x):
        return self.out(F.relu(self.blocks(x)).sum((2, 3)))


@torch.no_grad()
def update_average(average, model, decay):
    for a, b in zip(average.parameters(), model.parameters(), strict=True):
        a.lerp_(b, 1 - decay)
    for a, b in zip(average.buffers(), model.buffers(), strict=True):
        a.copy_(b)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--d-steps", type=int, default=2)
    parser.add_argument("--grid", type=int, default=256)
    args = parser.parse_args()
    torch.manual_seed(6)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    transform = v2.Compose(
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]
    )
    data = FakeData(args.images, (3, 64, 64), transform=transform)
    loader = DataLoader(data, args.batch, shuffle=True, drop_last=True, num_workers=4)
    g, d = Generator(args.latent, args.width).to(device), Discriminator(args.width).to(device)
    average = copy.deepcopy(g).eval()
    opt_g = torch.optim.Adam(g.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_d = torch.optim.Adam(d.parameters(), lr=4e-4, betas=(0.0, 0.9))
    fixed = torch.randn(args.grid, args.latent, device=device)
    iteration = 0
    for epoch in range(args.epochs):
        for real, _ in loader:
            real = real.to(device)
            z = torch.randn(len(real), args.latent, device=device)
            with torch.no_grad():
                fake = g(z)
            d_loss = F.relu(1 - d(real)).mean() + F.relu(1 + d(fake)).mean()
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()
            iteration += 1
            if iteration % args.d_steps:
                continue
            d.requires_grad_(False)
            g_loss = -d(g(torch.randn(len(real), args.latent, device=device))).mean()
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()
            d.requires_grad_(True)
            update_average(average, g, 0.99)
            if iteration % 8 == 0:
                print(f"{epoch} {iteration}: D {d_loss.item():.3f} G {g_loss.item():.3f}")
        with torch.no_grad():
            save_image(average(fixed), f"fake_{epoch}.png", nrow=16, normalize=True)
    torch.save(
        {"g": g.state_dict(), "d": d.state_dict(), "average": average.state_dict()}, "gan.pt"
    )


if __name__ == "__main__":
    main()
