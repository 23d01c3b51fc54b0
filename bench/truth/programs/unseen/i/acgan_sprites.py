"""Auxiliary-classifier GAN on 64x64 sprites (DCGAN backbone), two Adam optimizers, sample grids per epoch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.utils import make_grid, save_image


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self, z, classes, f):
        super().__init__()
        self.embed = nn.Embedding(classes, z)
        layers, c = (
            [
                nn.ConvTranspose2d(z, f * 8, 4, 1, 0, bias=False),
                nn.BatchNorm2d(f * 8),
                nn.ReLU(True),
            ],
            f * 8,
        )
        for _ in range(3):
            layers += [
                nn.ConvTranspose2d(c, c // 2, 4, 2, 1, bias=False),
                nn.BatchNorm2d(c // 2),
                nn.ReLU(True),
            ]
            c //= 2
        layers += [nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh()]
        self.net = nn.Sequential(*layers)

    def forward(self, z, y):
        return self.net((z * self.embed(y))[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, classes, f):
        super().__init__()
        layers, c = [nn.Conv2d(3, f, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Dropout2d(0.25)], f
        for _ in range(3):
            layers += [
                nn.Conv2d(c, c * 2, 4, 2, 1, bias=False),
                nn.BatchNorm2d(c * 2),
                nn.LeakyReLU(0.2, True),
                nn.Dropout2d(0.25),
            ]
            c *= 2
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.adv = nn.Linear(c * 16, 1)
        self.aux = nn.Linear(c * 16, classes)

    def forward(self, x):
        h = self.features(x)
        return self.adv(h).squeeze(1), self.aux(h)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--features", type=int, default=96)
    p.add_argument("--z", type=int, default=128)
    p.add_argument("--classes", type=int, default=12)
    p.add_argument("--images", type=int, default=4000)
    p.add_argument("--epochs", type=int, default=2)
    opt = p.parse_args()
    torch.manual_seed(999)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(
        torch.rand(opt.images, 3, 64, 64) * 2 - 1, torch.randint(0, opt.classes, (opt.images,))
    )
    loader = DataLoader(data, opt.batch_size, shuffle=True)
    G = Generator(opt.z, opt.classes, opt.features).to(device).apply(weights_init)
    D = Discriminator(opt.classes, opt.features).to(device).apply(weights_init)
    og = torch.optim.Adam(G.parameters(), 2e-4, (0.5, 0.999))
    od = torch.optim.Adam(D.parameters(), 2e-4, (0.5, 0.999))
    bce, ce = nn.BCEWithLogitsLoss(), nn.CrossEntropyLoss()
    fixed_z = torch.randn(opt.classes * 8, opt.z, device=device)
    fixed_y = torch.arange(opt.classes, device=device).repeat_interleave(8)

    for epoch in range(opt.epochs):
        for i, (real, y) in enumerate(loader):
            real, y = real.to(device), y.to(device)
            n = len(y)
            ones, zeros = torch.full((n,), 0.9, device=device), torch.zeros(n, device=device)
            fake_y = torch.randint(0, opt.classes, (n,), device=device)
            fake = G(torch.randn(n, opt.z, device=device), fake_y)

            D.zero_grad()
            ra, rc = D(real)
            fa, fc = D(fake.detach())
            d_loss = bce(ra, ones) + bce(fa, zeros) + 0.5 * (ce(rc, y) + ce(fc, fake_y))
            d_loss.backward()
            od.step()

            G.zero_grad()
            fa, fc = D(fake)
            g_loss = bce(fa, torch.ones_like(ones)) + ce(fc, fake_y)
            g_loss.backward()
            og.step()
            if i % 3 == 0:
                acc = (rc.argmax(1) == y).float().mean().item()
                print(
                    f"[{epoch}/{i}] D {d_loss.item():.3f} G {g_loss.item():.3f} aux acc {acc:.2f}"
                )
        G.eval()
        with torch.no_grad():
            save_image(
                make_grid(G(fixed_z, fixed_y).cpu(), nrow=8, normalize=True), f"sprites_{epoch}.png"
            )
        G.train()
        torch.save({"G": G.state_dict(), "D": D.state_dict()}, "acgan.pt")


if __name__ == "__main__":
    main()
