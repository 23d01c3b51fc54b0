"""A GAN in the style of StyleGAN: mapping network, modulated blocks, lazy R1 penalty, averaged generator, grids."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.utils import save_image


class Modulated(nn.Module):
    def __init__(self, cin, cout, style):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin, 3, 3))
        self.affine = nn.Linear(style, cin)
        nn.init.ones_(self.affine.bias)
        self.noise = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(cout))
        self.gain = 1 / math.sqrt(cin * 9)

    def forward(self, x, w):
        b, c, h, _ = x.shape
        style = self.affine(w)[:, None, :, None, None]
        weight = self.weight[None] * self.gain * style
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        x = F.conv2d(x.reshape(1, b * c, h, h), weight.flatten(0, 1), padding=1, groups=b)
        x = x.view(b, -1, h, h)
        x = x + self.noise * torch.randn(b, 1, h, h, device=x.device)
        return F.leaky_relu(x + self.bias[:, None, None], 0.2) * math.sqrt(2)


class Generator(nn.Module):
    def __init__(self, size, latent, width):
        super().__init__()
        layers = []
        for _ in range(4):
            layers += [nn.Linear(latent, latent), nn.LeakyReLU(0.2)]
        self.mapping = nn.Sequential(*layers)
        self.start = nn.Parameter(torch.randn(1, width, 4, 4))
        self.blocks, self.rgb = nn.ModuleList(), nn.ModuleList()
        c = width
        for level in range(int(math.log2(size)) - 2):
            out = max(width >> max(level - 1, 0), 32)
            self.blocks.append(
                nn.ModuleList([Modulated(c, out, latent), Modulated(out, out, latent)])
            )
            self.rgb.append(nn.Conv2d(out, 3, 1))
            c = out

    def forward(self, z):
        w = self.mapping(F.normalize(z, dim=1) * math.sqrt(z.shape[1]))
        x, image = self.start.expand(len(z), -1, -1, -1), None
        for (first, second), rgb in zip(self.blocks, self.rgb):
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = second(first(x, w), w)
            image = rgb(x) if image is None else rgb(x) + F.interpolate(image, scale_factor=2)
        return image


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.one, self.two = nn.Conv2d(cin, cin, 3, padding=1), nn.Conv2d(cin, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1, bias=False)

    def forward(self, x):
        y = F.leaky_relu(self.two(F.leaky_relu(self.one(x), 0.2)), 0.2)
        return (F.avg_pool2d(y, 2) + F.avg_pool2d(self.skip(x), 2)) / math.sqrt(2)


class Discriminator(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        c = 32
        layers = [nn.Conv2d(3, c, 1), nn.LeakyReLU(0.2)]
        for _ in range(int(math.log2(size)) - 2):
            layers.append(Residual(c, min(c * 2, width)))
            c = min(c * 2, width)
        self.body = nn.Sequential(*layers)
        self.last = nn.Conv2d(c + 1, c, 3, padding=1)
        self.out = nn.Sequential(nn.Linear(c * 16, c), nn.LeakyReLU(0.2), nn.Linear(c, 1))

    def forward(self, x):
        x = self.body(x)
        spread = x.std(0, unbiased=False).mean().expand(len(x), 1, *x.shape[2:])
        return self.out(F.leaky_relu(self.last(torch.cat([x, spread], 1)), 0.2).flatten(1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=128)
    p.add_argument("--latent", type=int, default=256)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--iters", type=int, default=50)
    p.add_argument("--r1", type=float, default=10.0)
    p.add_argument("--r1-every", type=int, default=16)
    p.add_argument("--samples", type=int, default=64)
    a = p.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    g = Generator(a.size, a.latent, a.width).to(device)
    d = Discriminator(a.size, a.width).to(device)
    g_ema = copy.deepcopy(g).eval().requires_grad_(False)
    ratio = a.r1_every / (a.r1_every + 1)
    g_optim = torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.0, 0.99))
    d_optim = torch.optim.Adam(d.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99**ratio))
    fixed = torch.randn(a.samples, a.latent, device=device)
    for i in range(1, a.iters + 1):
        real = torch.rand(a.batch, 3, a.size, a.size).to(device) * 2 - 1
        with torch.no_grad():
            fake = g(torch.randn(a.batch, a.latent, device=device))
        d_loss = F.softplus(d(fake)).mean() + F.softplus(-d(real)).mean()
        d_optim.zero_grad()
        d_loss.backward()
        d_optim.step()
        if i % a.r1_every == 0:
            real.requires_grad_(True)
            (grad,) = torch.autograd.grad(d(real).sum(), real, create_graph=True)
            penalty = grad.square().flatten(1).sum(1).mean()
            d_optim.zero_grad()
            (a.r1 / 2 * penalty * a.r1_every).backward()
            d_optim.step()
            print(f"{i}: R1 {penalty.item():.4f}")
        g_loss = F.softplus(-d(g(torch.randn(a.batch, a.latent, device=device)))).mean()
        g_optim.zero_grad()
        g_loss.backward()
        g_optim.step()
        with torch.no_grad():
            for average, current in zip(g_ema.parameters(), g.parameters()):
                average.lerp_(current, 0.01)
        if i % 25 == 0:
            print(f"{i}: d {d_loss.item():.3f}, g {g_loss.item():.3f}")
            with torch.no_grad():
                save_image(g_ema(fixed).clamp(-1, 1), f"grid-{i}.png", nrow=8, normalize=True)
    torch.save({"g": g.state_dict(), "d": d.state_dict(), "ema": g_ema.state_dict()}, "gan.pt")


if __name__ == "__main__":
    main()
