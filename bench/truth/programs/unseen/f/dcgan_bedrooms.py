"""DCGAN of 128-pixel bedrooms: Adam for each net, fixed noise, a wall of samples at the end."""

import argparse
import os
import random

import torch
import torchvision.utils as vutils
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batchSize", type=int, default=256)
parser.add_argument("--imageSize", type=int, default=128)
parser.add_argument("--nz", type=int, default=100)
parser.add_argument("--ngf", type=int, default=96)
parser.add_argument("--ndf", type=int, default=96)
parser.add_argument("--niter", type=int, default=2)
parser.add_argument("--images", type=int, default=7500)
parser.add_argument("--lr", type=float, default=0.0002)
parser.add_argument("--beta1", type=float, default=0.5)
parser.add_argument("--samples", type=int, default=2500)
parser.add_argument("--outf", default="results")
parser.add_argument("--manualSeed", type=int, default=999)
opt = parser.parse_args()

os.makedirs(opt.outf, exist_ok=True)
random.seed(opt.manualSeed)
torch.manual_seed(opt.manualSeed)
device = torch.device("cuda")


class Bedrooms(torch.utils.data.Dataset):
    def __len__(self):
        return opt.images

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        colour = torch.rand(3, 1, 1, generator=g)
        return (colour + 0.1 * torch.randn(3, opt.imageSize, opt.imageSize, generator=g)).clamp(
            -1, 1
        ), 0


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.normal_(m.weight, 1.0, 0.02)
        torch.nn.init.zeros_(m.bias)


def generator(nz, ngf):
    layers = [
        nn.ConvTranspose2d(nz, ngf * 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(ngf * 16),
        nn.ReLU(True),
    ]
    for a, b in ((16, 8), (8, 4), (4, 2), (2, 1)):
        layers += [
            nn.ConvTranspose2d(ngf * a, ngf * b, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf * b),
            nn.ReLU(True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(ndf):
    layers = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for a, b in ((1, 2), (2, 4), (4, 8), (8, 16)):
        layers += [
            nn.Conv2d(ndf * a, ndf * b, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * b),
            nn.LeakyReLU(0.2, inplace=True),
        ]
    return nn.Sequential(
        *layers, nn.Conv2d(ndf * 16, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0)
    )


netG = generator(opt.nz, opt.ngf).to(device).apply(weights_init)
netD = discriminator(opt.ndf).to(device).apply(weights_init)
criterion = nn.BCELoss()
fixed_noise = torch.randn(64, opt.nz, 1, 1, device=device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
dataloader = torch.utils.data.DataLoader(
    Bedrooms(), batch_size=opt.batchSize, shuffle=True, num_workers=4
)

for epoch in range(opt.niter):
    for i, data in enumerate(dataloader, 0):
        # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        real = data[0].to(device)
        batch_size = real.size(0)
        label = torch.full((batch_size,), 1.0, dtype=real.dtype, device=device)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        noise = torch.randn(batch_size, opt.nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        optimizerD.step()
        # (2) Update G network: maximize log(D(G(z)))
        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        optimizerG.step()
        if i % 10 == 0:
            print(
                f"[{epoch}/{opt.niter}][{i}/{len(dataloader)}] D {(errD_real + errD_fake).item():.4f} D(x) {D_x:.4f}"
            )
            fake = netG(fixed_noise)
            vutils.save_image(fake.detach(), f"{opt.outf}/fake_{epoch:03d}.png", normalize=True)
    torch.save(netG.state_dict(), f"{opt.outf}/netG_epoch_{epoch}.pth")
    torch.save(netD.state_dict(), f"{opt.outf}/netD_epoch_{epoch}.pth")

netG.eval()
with torch.no_grad():
    wall = netG(torch.randn(opt.samples, opt.nz, 1, 1, device=device))
    scores = netD(wall[:500])
    best = wall[scores.topk(100).indices]
    vutils.save_image(best, f"{opt.outf}/wall.png", nrow=10, normalize=True)
print(wall.shape, scores.mean().item())
