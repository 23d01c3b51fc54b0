"""Pix2pix: a U-Net turns maps into aerial pictures, a patch discriminator judges; two Adams, a linear decay."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.utils import make_grid, save_image

parser = argparse.ArgumentParser()
parser.add_argument("--n_epochs", type=int, default=2)
parser.add_argument("--images", type=int, default=400)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--img_size", type=int, default=256)
parser.add_argument("--ngf", type=int, default=64)
parser.add_argument("--lr", type=float, default=2e-4)
parser.add_argument("--lambda_l1", type=float, default=100.0)
parser.add_argument("--n_cpu", type=int, default=4)
parser.add_argument("--sample_interval", type=int, default=20)
opt = parser.parse_args()
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Maps(Dataset):
    def __len__(self):
        return opt.images

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        blocks = torch.rand(3, 8, 8, generator=g)
        picture = blocks.repeat_interleave(opt.img_size // 8, 1).repeat_interleave(
            opt.img_size // 8, 2
        )
        noise = 0.1 * torch.randn(picture.shape, generator=g)
        return {"A": picture * 2 - 1, "B": ((1 - picture) * 2 - 1 + noise).clamp(-1, 1)}


def down(cin, cout, norm=True):
    layers = [nn.Conv2d(cin, cout, 4, 2, 1, bias=not norm)]
    if norm:
        layers.append(nn.BatchNorm2d(cout))
    layers.append(nn.LeakyReLU(0.2, inplace=True))
    return nn.Sequential(*layers)


def up(cin, cout, dropout=0.0):
    layers = [
        nn.ConvTranspose2d(cin, cout, 4, 2, 1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    ]
    if dropout:
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


class GeneratorUNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.downs = nn.ModuleList(
            [
                down(3, n, False),
                down(n, 2 * n),
                down(2 * n, 4 * n),
                down(4 * n, 8 * n),
                down(8 * n, 8 * n),
            ]
        )
        self.ups = nn.ModuleList(
            [up(8 * n, 8 * n, 0.5), up(16 * n, 4 * n), up(8 * n, 2 * n), up(4 * n, n)]
        )
        self.final = nn.Sequential(nn.ConvTranspose2d(2 * n, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x):
        skips = []
        for layer in self.downs:
            x = layer(x)
            skips.append(x)
        skips = skips[:-1][::-1]
        for layer, skip in zip(self.ups, skips):
            x = torch.cat((layer(x), skip), 1)
        return self.final(x)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)


n = opt.ngf
generator = GeneratorUNet(n).to(device)
discriminator = nn.Sequential(
    down(6, n, False),
    down(n, 2 * n),
    down(2 * n, 4 * n),
    down(4 * n, 8 * n),
    nn.Conv2d(8 * n, 1, 3, padding=1),
).to(device)
generator.apply(weights_init)
discriminator.apply(weights_init)
criterion_gan, criterion_pixel = nn.MSELoss(), nn.L1Loss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=opt.lr, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=opt.lr, betas=(0.5, 0.999))


def main():
    loader = DataLoader(Maps(), opt.batch_size, shuffle=True, num_workers=opt.n_cpu)
    val = DataLoader(Maps(), 10, shuffle=True)
    done = 0
    for epoch in range(opt.n_epochs):
        for i, batch in enumerate(loader):
            real_a, real_b = batch["A"].to(device), batch["B"].to(device)
            optimizer_g.zero_grad()
            fake_b = generator(real_a)
            pred = discriminator(torch.cat((fake_b, real_a), 1))
            valid, fake = torch.ones_like(pred), torch.zeros_like(pred)
            loss_g = criterion_gan(pred, valid) + opt.lambda_l1 * criterion_pixel(fake_b, real_b)
            loss_g.backward()
            optimizer_g.step()
            optimizer_d.zero_grad()
            loss_real = criterion_gan(discriminator(torch.cat((real_b, real_a), 1)), valid)
            loss_fake = criterion_gan(discriminator(torch.cat((fake_b.detach(), real_a), 1)), fake)
            loss_d = 0.5 * (loss_real + loss_fake)
            loss_d.backward()
            optimizer_d.step()
            done += 1
            if done % opt.sample_interval == 0:
                print(f"[{epoch}/{opt.n_epochs}] [{i}] D {loss_d.item():.4f} G {loss_g.item():.4f}")
                sample = next(iter(val))
                made = generator(sample["A"].to(device))
                grid = make_grid(torch.cat((sample["A"].to(device), made.data), -2), nrow=5)
                save_image(grid, f"maps_{done}.png", normalize=True)
    torch.save(generator.state_dict(), "generator.pth")


if __name__ == "__main__":
    main()
