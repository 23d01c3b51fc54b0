"""Class-conditional BigGAN-like GAN of mushrooms at 96 x 96: hinge loss, conditional batch norm, projection discriminator, two critic steps per generator step, EMA of the generator."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, Dataset


class Mushrooms(Dataset):
    def __init__(self, n, classes, side=96):
        self.n, self.classes, self.side = n, classes, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y = i % self.classes
        x = F.interpolate(torch.randn(1, 3, 12, 12, generator=g), self.side, mode="bilinear")[0]
        return (x + y / self.classes).tanh(), y


def conv(a, b, k=3):
    return spectral_norm(nn.Conv2d(a, b, k, padding=k // 2))


class CondBN(nn.Module):
    def __init__(self, channels, cond):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels, affine=False)
        self.gain = spectral_norm(nn.Linear(cond, channels, bias=False))
        self.bias = spectral_norm(nn.Linear(cond, channels, bias=False))

    def forward(self, x, c):
        return self.bn(x) * (1 + self.gain(c)[..., None, None]) + self.bias(c)[..., None, None]


class GBlock(nn.Module):
    def __init__(self, a, b, cond):
        super().__init__()
        self.n1, self.n2 = CondBN(a, cond), CondBN(b, cond)
        self.c1, self.c2, self.skip = conv(a, b), conv(b, b), conv(a, b, 1)

    def forward(self, x, c):
        h = F.interpolate(F.relu(self.n1(x, c)), scale_factor=2)
        h = self.c2(F.relu(self.n2(self.c1(h), c)))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, ch, classes, chunk=24, shared=128):
        super().__init__()
        self.chunk, self.z = chunk, chunk * 5
        self.embed = nn.Embedding(classes, shared)
        self.first = spectral_norm(nn.Linear(chunk, 16 * ch * 36))
        sizes = [16 * ch, 8 * ch, 4 * ch, 2 * ch, ch]
        self.blocks = nn.ModuleList(GBlock(a, b, shared + chunk) for a, b in zip(sizes, sizes[1:]))
        self.norm, self.last = nn.BatchNorm2d(ch), conv(ch, 3)

    def forward(self, z, y):
        parts, e = z.split(self.chunk, 1), self.embed(y)
        h = self.first(parts[0]).view(len(z), -1, 6, 6)
        for block, part in zip(self.blocks, parts[1:]):
            h = block(h, torch.cat([e, part], 1))
        return torch.tanh(self.last(F.relu(self.norm(h))))


class DBlock(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.c1, self.c2, self.skip = conv(a, b), conv(b, b), conv(a, b, 1)

    def forward(self, x):
        h = self.c2(F.relu(self.c1(F.relu(x))))
        return F.avg_pool2d(h + self.skip(x), 2)


class Discriminator(nn.Module):
    def __init__(self, ch, classes):
        super().__init__()
        sizes = [3, ch, 2 * ch, 4 * ch, 8 * ch]
        self.blocks = nn.Sequential(*(DBlock(a, b) for a, b in zip(sizes, sizes[1:])))
        self.out = spectral_norm(nn.Linear(8 * ch, 1))
        self.embed = spectral_norm(nn.Embedding(classes, 8 * ch))

    def forward(self, x, y):
        h = F.relu(self.blocks(x)).sum((2, 3))
        return self.out(h).squeeze(1) + (self.embed(y) * h).sum(1)


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, m in zip(ema.parameters(), model.parameters()):
        e.lerp_(m, 1 - decay)
    for e, m in zip(ema.buffers(), model.buffers()):
        e.copy_(m)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--ch", type=int, default=64)
    p.add_argument("--classes", type=int, default=20)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--d-steps", type=int, default=2)
    p.add_argument("--workers", type=int, default=4)
    a = p.parse_args()
    torch.manual_seed(1337)
    torch.backends.cuda.matmul.allow_tf32 = True

    g = Generator(a.ch, a.classes).to(a.device)
    ema = copy.deepcopy(g).requires_grad_(False).eval()
    d = Discriminator(a.ch, a.classes).to(a.device)
    opt_g = torch.optim.Adam(g.parameters(), lr=1e-4, betas=(0.0, 0.999))
    opt_d = torch.optim.Adam(d.parameters(), lr=4e-4, betas=(0.0, 0.999))
    loader = DataLoader(
        Mushrooms(a.batch * a.steps * a.d_steps, a.classes),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        drop_last=True,
    )

    def noise(n):
        z = torch.randn(n, g.z, device=a.device)
        return z, torch.randint(0, a.classes, (n,), device=a.device)

    for i, (real, y) in enumerate(loader):
        real, y = real.to(a.device), y.to(a.device)
        z, fake_y = noise(len(real))
        with torch.no_grad():
            fake = g(z, fake_y)
        scores = d(torch.cat([real, fake]), torch.cat([y, fake_y]))
        on_real, on_fake = scores.chunk(2)
        d_loss = F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        if (i + 1) % a.d_steps == 0:
            z, fake_y = noise(a.batch)
            g_loss = -d(g(z, fake_y), fake_y).mean()
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()
            update_ema(ema, g, 0.999)
            print(f"{i // a.d_steps:3d} d {d_loss.item():.3f} g {g_loss.item():.3f}")

    with torch.no_grad():
        z, y = noise(40)
        sheet = ema(z, y)
    print("samples", tuple(sheet.shape), sheet.std().item())
    torch.save({"ema": ema.state_dict()}, "mushrooms.pt")


if __name__ == "__main__":
    main()
