"""Class-conditional GAN with self-attention and a projection discriminator, fp16 with two scalers."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm as sn
from torchvision.utils import save_image


class CondBN(nn.Module):
    def __init__(self, ch, classes):
        super().__init__()
        self.bn = nn.BatchNorm2d(ch, affine=False)
        self.gain = nn.Embedding(classes, ch)
        self.bias = nn.Embedding(classes, ch)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, x, y):
        return self.bn(x) * self.gain(y)[:, :, None, None] + self.bias(y)[:, :, None, None]


class Attention(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.q = sn(nn.Conv2d(ch, ch // 8, 1))
        self.k = sn(nn.Conv2d(ch, ch // 8, 1))
        self.v = sn(nn.Conv2d(ch, ch // 2, 1))
        self.o = sn(nn.Conv2d(ch // 2, ch, 1))
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.q(x).flatten(2)
        k = F.max_pool2d(self.k(x), 2).flatten(2)
        v = F.max_pool2d(self.v(x), 2).flatten(2)
        att = torch.softmax(torch.bmm(q.transpose(1, 2), k), dim=-1)
        o = torch.bmm(v, att.transpose(1, 2)).view(b, c // 2, h, w)
        return x + self.gamma * self.o(o)


class GBlock(nn.Module):
    def __init__(self, cin, cout, classes):
        super().__init__()
        self.b1, self.b2 = CondBN(cin, classes), CondBN(cout, classes)
        self.c1, self.c2 = (
            sn(nn.Conv2d(cin, cout, 3, padding=1)),
            sn(nn.Conv2d(cout, cout, 3, padding=1)),
        )
        self.skip = sn(nn.Conv2d(cin, cout, 1))

    def forward(self, x, y):
        h = F.interpolate(F.relu(self.b1(x, y)), scale_factor=2)
        h = self.c2(F.relu(self.b2(self.c1(h), y)))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, ch, classes, z=128):
        super().__init__()
        self.z = z
        self.fc = sn(nn.Linear(z, 16 * ch * 16))
        chans = [16 * ch, 8 * ch, 4 * ch, 2 * ch, ch, ch]
        self.blocks = nn.ModuleList(GBlock(a, b, classes) for a, b in zip(chans, chans[1:]))
        self.att = Attention(2 * ch)
        self.bn, self.out = nn.BatchNorm2d(ch), sn(nn.Conv2d(ch, 3, 3, padding=1))

    def forward(self, z, y):
        h = self.fc(z).view(len(z), -1, 4, 4)
        for i, block in enumerate(self.blocks):
            h = block(h, y)
            if i == 2:
                h = self.att(h)
        return torch.tanh(self.out(F.relu(self.bn(h))))


class DBlock(nn.Module):
    def __init__(self, cin, cout, down=True):
        super().__init__()
        self.c1, self.c2 = (
            sn(nn.Conv2d(cin, cout, 3, padding=1)),
            sn(nn.Conv2d(cout, cout, 3, padding=1)),
        )
        self.skip, self.down = sn(nn.Conv2d(cin, cout, 1)), down

    def forward(self, x):
        h = self.c2(F.relu(self.c1(F.relu(x))))
        s = self.skip(x)
        return F.avg_pool2d(h, 2) + F.avg_pool2d(s, 2) if self.down else h + s


class Discriminator(nn.Module):
    def __init__(self, ch, classes):
        super().__init__()
        self.first, self.att = DBlock(3, ch), Attention(ch)
        self.rest = nn.Sequential(
            DBlock(ch, 2 * ch),
            DBlock(2 * ch, 4 * ch),
            DBlock(4 * ch, 8 * ch),
            DBlock(8 * ch, 16 * ch),
            DBlock(16 * ch, 16 * ch, down=False),
        )
        self.fc, self.emb = sn(nn.Linear(16 * ch, 1)), sn(nn.Embedding(classes, 16 * ch))

    def forward(self, x, y):
        h = F.relu(self.rest(self.att(self.first(x)))).sum((2, 3))
        return self.fc(h).squeeze(1) + (self.emb(y) * h).sum(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=48)
    p.add_argument("--ch", type=int, default=48)
    p.add_argument("--classes", type=int, default=50)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--images", type=int, default=600)
    a = p.parse_args()
    torch.manual_seed(7)
    dev = "cuda"
    images = torch.randint(0, 256, (a.images, 3, 128, 128), dtype=torch.uint8)
    labels = torch.randint(0, a.classes, (a.images,))
    g, d = Generator(a.ch, a.classes).to(dev), Discriminator(a.ch, a.classes).to(dev)
    ema = copy.deepcopy(g).eval().requires_grad_(False)
    og = torch.optim.Adam(g.parameters(), lr=1e-4, betas=(0.0, 0.999))
    od = torch.optim.Adam(d.parameters(), lr=4e-4, betas=(0.0, 0.999))
    sg, sd = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
    fixed_z, fixed_y = torch.randn(64, g.z, device=dev), torch.arange(64, device=dev) % a.classes

    for step in range(a.steps):
        idx = torch.randint(0, a.images, (a.batch,))
        x, y = images[idx].to(dev).float() / 127.5 - 1, labels[idx].to(dev)
        with torch.autocast("cuda", dtype=torch.float16):
            with torch.no_grad():
                fake = g(torch.randn(a.batch, g.z, device=dev), y)
            real_s, fake_s = d(x, y), d(fake, y)
            loss_d = (F.softplus(-real_s) + F.softplus(fake_s)).mean()
        od.zero_grad()
        sd.scale(loss_d).backward()
        sd.step(od)
        sd.update()

        d.requires_grad_(False)
        with torch.autocast("cuda", dtype=torch.float16):
            yg = torch.randint(0, a.classes, (a.batch,), device=dev)
            loss_g = F.softplus(-d(g(torch.randn(a.batch, g.z, device=dev), yg), yg)).mean()
        og.zero_grad()
        sg.scale(loss_g).backward()
        sg.step(og)
        sg.update()
        d.requires_grad_(True)
        with torch.no_grad():
            for pe, pg in zip(ema.parameters(), g.parameters()):
                pe.lerp_(pg, 0.01)
            for be, bg in zip(ema.buffers(), g.buffers()):
                be.copy_(bg)
        if not step % 6:
            print(f"{step} D {loss_d.item():.3f} G {loss_g.item():.3f} scale {sg.get_scale():.0f}")
    with torch.no_grad():
        save_image(ema(fixed_z, fixed_y).cpu() * 0.5 + 0.5, "sagan.png", nrow=8)
    torch.save({"g": g.state_dict(), "d": d.state_dict(), "ema": ema.state_dict()}, "sagan.pt")


if __name__ == "__main__":
    main()
