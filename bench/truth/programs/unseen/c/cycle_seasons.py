"""CycleGAN between two seasons: two generators, two critics, a pool of earlier fakes, three losses."""

import argparse
import itertools
import random

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(c, c, 3),
            nn.InstanceNorm2d(c),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(c, c, 3),
            nn.InstanceNorm2d(c),
        )

    def forward(self, x):
        return x + self.body(x)


def generator(width, blocks):
    layers = [
        nn.ReflectionPad2d(3),
        nn.Conv2d(3, width, 7),
        nn.InstanceNorm2d(width),
        nn.ReLU(True),
    ]
    for i in range(2):
        c = width * 2**i
        layers += [
            nn.Conv2d(c, 2 * c, 3, 2, 1),
            nn.InstanceNorm2d(2 * c),
            nn.ReLU(True),
        ]
    layers += [Residual(width * 4) for _ in range(blocks)]
    for i in (2, 1):
        c = width * 2**i
        layers += [
            nn.ConvTranspose2d(c, c // 2, 3, 2, 1, 1),
            nn.InstanceNorm2d(c // 2),
            nn.ReLU(True),
        ]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


def critic(width):
    layers = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True)]
    c = width
    for stride in (2, 2, 1):
        layers += [nn.Conv2d(c, min(2 * c, 8 * width), 4, stride, 1)]
        c = min(2 * c, 8 * width)
        layers += [nn.InstanceNorm2d(c), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(c, 1, 4, 1, 1))


class Pool:
    def __init__(self, size, rng):
        self.size, self.rng, self.images = size, rng, []

    def query(self, batch):
        out = []
        for image in batch.detach().split(1):
            if len(self.images) < self.size:
                self.images.append(image)
                out.append(image)
            elif self.rng.random() > 0.5:
                k = self.rng.randrange(self.size)
                out.append(self.images[k])
                self.images[k] = image.clone()
            else:
                out.append(image)
        return torch.cat(out)


def lsgan(prediction, real):
    return F.mse_loss(prediction, torch.full_like(prediction, float(real)))


def season(kind, batch, size, g):
    low = torch.rand(batch, 3, size // 16, size // 16, generator=g)
    x = F.interpolate(low, size=(size, size), mode="bicubic").clamp(0, 1)
    tint = torch.tensor([0.9, 0.6, 0.2] if kind == "autumn" else [0.3, 0.9, 0.4])
    return x * tint[:, None, None] * 2 - 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=192)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--blocks", type=int, default=6)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--pool", type=int, default=50)
    a = p.parse_args()
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    to_b, to_a = (
        generator(a.width, a.blocks).to(device),
        generator(a.width, a.blocks).to(device),
    )
    judge_a, judge_b = critic(a.width).to(device), critic(a.width).to(device)
    opt_g = torch.optim.Adam(
        itertools.chain(to_a.parameters(), to_b.parameters()), 2e-4, (0.5, 0.999)
    )
    opt_d = torch.optim.Adam(
        itertools.chain(judge_a.parameters(), judge_b.parameters()), 2e-4, (0.5, 0.999)
    )
    rng = random.Random(2)
    pool_a, pool_b = Pool(a.pool, rng), Pool(a.pool, rng)
    for step in range(a.steps):
        real_a = season("spring", a.batch, a.size, g).to(device)
        real_b = season("autumn", a.batch, a.size, g).to(device)
        for q in itertools.chain(judge_a.parameters(), judge_b.parameters()):
            q.requires_grad_(False)
        fake_b, fake_a = to_b(real_a), to_a(real_b)
        cycle = F.l1_loss(to_a(fake_b), real_a) + F.l1_loss(to_b(fake_a), real_b)
        same = F.l1_loss(to_b(real_b), real_b) + F.l1_loss(to_a(real_a), real_a)
        fool = lsgan(judge_b(fake_b), True) + lsgan(judge_a(fake_a), True)
        loss_g = fool + 10 * cycle + 5 * same
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        for q in itertools.chain(judge_a.parameters(), judge_b.parameters()):
            q.requires_grad_(True)
        opt_d.zero_grad()
        loss_d = 0.0
        for judge, real, fake, pool in (
            (judge_a, real_a, fake_a, pool_a),
            (judge_b, real_b, fake_b, pool_b),
        ):
            loss = 0.5 * (lsgan(judge(real), True) + lsgan(judge(pool.query(fake)), False))
            loss.backward()
            loss_d += loss.item()
        opt_d.step()
        if step % 20 == 0:
            print(f"step {step} G {loss_g.item():.3f} D {loss_d:.3f} cycle {cycle.item():.3f}")
    to_b.eval()
    with torch.no_grad():
        shown = to_b(season("spring", 4 * a.batch, a.size, g).to(device)).cpu()
    torch.save(
        {"to_b": to_b.state_dict(), "to_a": to_a.state_dict(), "shown": shown},
        "seasons.pt",
    )


if __name__ == "__main__":
    main()
