"""Larger pictures: first the mean error alone, then a discriminator and VGG features too, then one whole photo."""

import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

OPT = {
    "name": "RRDB_x4",
    "scale": 4,
    "lr_patch": 48,
    "batch": 12,
    "psnr": {"iters": 40, "lr": 2e-4},
    "gan": {"iters": 40, "lr": 1e-4, "feature": 1.0, "adversarial": 5e-3, "pixel": 1e-2},
    "net": {"width": 64, "grow": 32, "blocks": 12},
    "ema": 0.999,
    "photo": (360, 480),
}


class Dense(nn.Module):
    def __init__(self, nf, gc):
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv2d(nf + i * gc, gc if i < 4 else nf, 3, 1, 1) for i in range(5)]
        )

    def forward(self, x):
        kept = [x]
        for conv in self.convs[:-1]:
            kept.append(F.leaky_relu(conv(torch.cat(kept, 1)), 0.2, inplace=True))
        return self.convs[-1](torch.cat(kept, 1)) * 0.2 + x


class RRDBNet(nn.Module):
    def __init__(self, width, grow, blocks):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.trunk = nn.ModuleList(
            [nn.Sequential(*[Dense(width, grow) for _ in range(3)]) for _ in range(blocks)]
        )
        self.after, self.up1, self.up2, self.hr = (
            nn.Conv2d(width, width, 3, 1, 1) for _ in range(4)
        )
        self.last = nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, x):
        start = y = self.first(x)
        for block in self.trunk:
            y = y + 0.2 * block(y)
        y = start + self.after(y)
        for up in (self.up1, self.up2):
            y = F.leaky_relu(up(F.interpolate(y, scale_factor=2, mode="nearest")), 0.2)
        return self.last(F.leaky_relu(self.hr(y), 0.2))


def discriminator(width=64):
    layers, last = [nn.Conv2d(3, width, 3, 1, 1), nn.LeakyReLU(0.2, True)], width
    for out in (2 * width, 4 * width, 8 * width, 8 * width):
        layers += [
            spectral_norm(nn.Conv2d(last, out, 4, 2, 1, bias=False)),
            nn.LeakyReLU(0.2, True),
        ]
        last = out
    return nn.Sequential(*layers, nn.Conv2d(last, 1, 3, 1, 1))


class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torchvision.models.vgg19().features[:35].eval().requires_grad_(False)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, a, b):
        a, b = (self.features((x - self.mean) / self.std) for x in (a, b))
        return F.l1_loss(a, b.detach())


def patches(device):
    side = OPT["lr_patch"] * OPT["scale"]
    low = torch.rand(OPT["batch"], 3, 24, 24, device=device)
    hr = F.interpolate(low, size=(side, side), mode="bicubic").clamp(0, 1)
    return F.interpolate(hr, scale_factor=1 / OPT["scale"], mode="area"), hr


def update(average, net):
    with torch.no_grad():
        for name, p in net.named_parameters():
            average[name].mul_(OPT["ema"]).add_(p, alpha=1 - OPT["ema"])


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    net = RRDBNet(**OPT["net"]).to(device)
    average = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer_g = torch.optim.Adam(net.parameters(), lr=OPT["psnr"]["lr"], betas=(0.9, 0.99))
    for it in range(OPT["psnr"]["iters"]):
        lq, gt = patches(device)
        loss = F.l1_loss(net(lq), gt)
        optimizer_g.zero_grad()
        loss.backward()
        optimizer_g.step()
        update(average, net)
        if it % 10 == 0:
            print(f"psnr {it}: {loss.item():.4f}")
    torch.save({"params": net.state_dict(), "params_ema": average}, "net_g_psnr.pth")

    # second phase: new optimizers, the net as it was saved
    net.load_state_dict(torch.load("net_g_psnr.pth", map_location=device)["params"])
    net_d, perceptual = discriminator().to(device), Perceptual().to(device)
    optimizer_g = torch.optim.Adam(net.parameters(), lr=OPT["gan"]["lr"], betas=(0.9, 0.99))
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=OPT["gan"]["lr"], betas=(0.9, 0.99))
    for it in range(OPT["gan"]["iters"]):
        lq, gt = patches(device)
        net_d.requires_grad_(False)
        out = net(lq)
        fake, real = net_d(out), net_d(gt).detach()
        adversarial = (
            F.softplus(real - fake.mean()).mean() + F.softplus(-(fake - real.mean())).mean()
        ) / 2
        loss_g = OPT["gan"]["pixel"] * F.l1_loss(out, gt) + OPT["gan"]["feature"] * perceptual(
            out, gt
        )
        loss_g = loss_g + OPT["gan"]["adversarial"] * adversarial
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
        net_d.requires_grad_(True)
        real, fake = net_d(gt), net_d(out.detach())
        loss_d = (
            F.softplus(-(real - fake.mean())).mean() + F.softplus(fake - real.mean()).mean()
        ) / 2
        optimizer_d.zero_grad()
        loss_d.backward()
        optimizer_d.step()
        update(average, net)
        if it % 10 == 0:
            print(f"gan {it}: G {loss_g.item():.4f}, D {loss_d.item():.4f}")
    with torch.inference_mode():
        net.load_state_dict(average)
        photo = torch.rand(1, 3, *OPT["photo"], device=device)
        large = net(photo).clamp(0, 1)
        error = F.mse_loss(F.avg_pool2d(large, OPT["scale"]), photo).item()
    print(tuple(large.shape), f"{-10 * math.log10(error):.2f} dB")


if __name__ == "__main__":
    main()
