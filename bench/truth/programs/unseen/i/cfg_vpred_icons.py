"""Class-conditional diffusion with v-prediction, cosine schedule, classifier-free guidance and EMA; DDIM samples each epoch."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    a = t[:, None].float() * 1000 * freqs[None]
    return torch.cat([a.sin(), a.cos()], -1)


class Res(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.n2, self.c2 = nn.GroupNorm(32, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.emb(e)[:, :, None, None].chunk(2, 1)
        h = self.c2(F.silu(self.n2(h) * (1 + scale) + shift))
        return self.skip(x) + h


class Attn(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.norm, self.qkv, self.out, self.heads = (
            nn.GroupNorm(32, c),
            nn.Conv2d(c, 3 * c, 1),
            nn.Conv2d(c, c, 1),
            heads,
        )

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (
            self.qkv(self.norm(x))
            .view(b, 3, self.heads, c // self.heads, h * w)
            .transpose(-1, -2)
            .unbind(1)
        )
        o = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(o.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, ch, classes):
        super().__init__()
        emb = ch * 4
        self.ch = ch
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(classes + 1, emb)
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.d1, self.d1b = Res(ch, ch, emb), Res(ch, ch, emb)
        self.p1 = nn.Conv2d(ch, ch, 3, 2, 1)
        self.d2, self.d2b = Res(ch, 2 * ch, emb), Res(2 * ch, 2 * ch, emb)
        self.p2 = nn.Conv2d(2 * ch, 2 * ch, 3, 2, 1)
        self.d3, self.a3 = Res(2 * ch, 4 * ch, emb), Attn(4 * ch)
        self.mid = Res(4 * ch, 4 * ch, emb)
        self.u2, self.u2b = Res(4 * ch + 2 * ch, 2 * ch, emb), Res(2 * ch, 2 * ch, emb)
        self.u1, self.u1b = Res(2 * ch + ch, ch, emb), Res(ch, ch, emb)
        self.out = nn.Sequential(nn.GroupNorm(32, ch), nn.SiLU(), nn.Conv2d(ch, 3, 3, padding=1))
        nn.init.zeros_(self.out[-1].weight)

    def forward(self, x, t, y):
        e = F.silu(self.time(timestep_embedding(t, self.ch)) + self.label(y))
        h1 = self.d1b(self.d1(self.inp(x), e), e)
        h2 = self.d2b(self.d2(self.p1(h1), e), e)
        h = self.mid(self.a3(self.d3(self.p2(h2), e)), e)
        h = F.interpolate(h, scale_factor=2)
        h = self.u2b(self.u2(torch.cat([h, h2], 1), e), e)
        h = F.interpolate(h, scale_factor=2)
        h = self.u1b(self.u1(torch.cat([h, h1], 1), e), e)
        return self.out(h)


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2)[:, None, None, None], torch.sin(t * math.pi / 2)[
        :, None, None, None
    ]


@torch.no_grad()
def ddim(model, n, classes, size, steps, guidance, device):
    x = torch.randn(n, 3, size, size, device=device)
    y = torch.arange(n, device=device) % classes
    null = torch.full_like(y, classes)
    ts = torch.linspace(1, 0, steps + 1, device=device)
    for t0, t1 in zip(ts[:-1], ts[1:]):
        t = t0.expand(n)
        v = model(torch.cat([x, x]), torch.cat([t, t]), torch.cat([y, null]))
        vc, vu = v.float().chunk(2)
        v = vu + guidance * (vc - vu)
        a, s = alpha_sigma(t)
        x0, eps = (a * x - s * v).clamp(-1, 1), s * x + a * v
        a1, s1 = alpha_sigma(t1.expand(n))
        x = a1 * x0 + s1 * eps
    return x.clamp(-1, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--images", type=int, default=400)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--ch", type=int, default=96)
    p.add_argument("--classes", type=int, default=20)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--sample-steps", type=int, default=12)
    args = p.parse_args()
    torch.manual_seed(31)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(
        TensorDataset(
            torch.rand(args.images, 3, args.size, args.size) * 2 - 1,
            torch.randint(0, args.classes, (args.images,)),
        ),
        args.batch,
        shuffle=True,
        drop_last=True,
    )
    model = UNet(args.ch, args.classes).to(device)
    ema = copy.deepcopy(model).requires_grad_(False).eval()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            y = torch.where(torch.rand(len(y), device=device) < 0.1, args.classes, y)
            t = torch.rand(len(x), device=device)
            a, s = alpha_sigma(t)
            noise = torch.randn_like(x)
            with torch.autocast(device, dtype=torch.bfloat16):
                v = model(a * x + s * noise, t, y)
            loss = F.mse_loss(v.float(), a * noise - s * x)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.005)
        with torch.autocast(device, dtype=torch.bfloat16):
            samples = ddim(ema, 40, args.classes, args.size, args.sample_steps, 3.0, device)
        print(f"epoch {epoch} loss {loss.item():.4f} sample std {samples.std().item():.3f}")
        torch.save(samples.cpu(), f"icons_{epoch}.pt")
    torch.save(
        {"model": model.state_dict(), "ema": ema.state_dict(), "opt": opt.state_dict()},
        "cfg_last.pt",
    )


if __name__ == "__main__":
    main()
