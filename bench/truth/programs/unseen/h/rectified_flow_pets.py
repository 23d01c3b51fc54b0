"""Rectified flow on 64x64 pictures: U-Net velocity field, classifier-free guidance, EMA, Heun sampler."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.utils import save_image


def time_features(t, dim):
    f = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    a = 1000 * t[:, None] * f[None]
    return torch.cat([a.sin(), a.cos()], 1)


class Res(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(32, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
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


class Velocity(nn.Module):
    def __init__(self, base, classes, mult=(1, 2, 3)):
        super().__init__()
        self.base, emb = base, 4 * base
        self.time = nn.Sequential(nn.Linear(base, emb), nn.SiLU(), nn.Linear(emb, emb), nn.SiLU())
        self.label = nn.Embedding(classes + 1, emb)
        self.inp = nn.Conv2d(3, base, 3, padding=1)
        ch, skips = base, [base]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for i, m in enumerate(mult):
            for _ in range(2):
                self.down.append(
                    nn.ModuleList(
                        [Res(ch, m * base, emb), Attn(m * base) if i == 2 else nn.Identity()]
                    )
                )
                ch = m * base
                skips.append(ch)
            if i + 1 < len(mult):
                self.down.append(nn.Conv2d(ch, ch, 3, stride=2, padding=1))
                skips.append(ch)
        self.mid = nn.ModuleList([Res(ch, ch, emb), Attn(ch), Res(ch, ch, emb)])
        for i, m in reversed(list(enumerate(mult))):
            for _ in range(3):
                self.up.append(
                    nn.ModuleList(
                        [
                            Res(ch + skips.pop(), m * base, emb),
                            Attn(m * base) if i == 2 else nn.Identity(),
                        ]
                    )
                )
                ch = m * base
            if i:
                self.up.append(nn.Conv2d(ch, ch, 3, padding=1))
        self.out = nn.Sequential(nn.GroupNorm(32, ch), nn.SiLU(), nn.Conv2d(ch, 3, 3, padding=1))

    def forward(self, x, t, y):
        e = self.time(time_features(t, self.base)) + self.label(y)
        h = self.inp(x)
        hs = [h]
        for m in self.down:
            h = m(h) if isinstance(m, nn.Conv2d) else m[1](m[0](h, e))
            hs.append(h)
        h = self.mid[2](self.mid[1](self.mid[0](h, e)), e)
        for m in self.up:
            if isinstance(m, nn.Conv2d):
                h = m(F.interpolate(h, scale_factor=2))
            else:
                h = m[1](m[0](torch.cat([h, hs.pop()], 1), e))
        return self.out(h)


@torch.no_grad()
def sample(net, y, null, size, steps, guidance, device):
    x = torch.randn(len(y), 3, size, size, device=device)

    def field(x, t):
        tt = torch.full((2 * len(y),), t, device=device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            v = net(torch.cat([x, x]), tt, torch.cat([y, torch.full_like(y, null)])).float()
        c, u = v.chunk(2)
        return u + guidance * (c - u)

    ts = torch.linspace(0, 1, steps + 1).tolist()
    for a, b in zip(ts, ts[1:]):
        v = field(x, a)
        x1 = x + (b - a) * v
        x = x + (b - a) * 0.5 * (v + field(x1, b))
    return x.clamp(-1, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=64)
    ap.add_argument("--base", type=int, default=96)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--images", type=int, default=1000)
    ap.add_argument("--classes", type=int, default=37)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--sample-steps", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda")
    data = TensorDataset(
        torch.randint(0, 256, (args.images, 3, args.size, args.size), dtype=torch.uint8),
        torch.randint(0, args.classes, (args.images,)),
    )
    loader = DataLoader(data, args.batch, shuffle=True, drop_last=True, pin_memory=True)
    net = Velocity(args.base, args.classes).to(device)
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-4, weight_decay=0.01, fused=True)
    print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M parameters")
    for epoch in range(args.epochs):
        for i, (x1, y) in enumerate(loader):
            x1, y = x1.to(device).float() / 127.5 - 1, y.to(device)
            y = torch.where(torch.rand(len(y), device=device) < 0.1, args.classes, y)
            x0 = torch.randn_like(x1)
            t = torch.sigmoid(torch.randn(len(y), device=device))
            xt = torch.lerp(x0, x1, t[:, None, None, None])
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.mse_loss(net(xt, t, y), x1 - x0)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            with torch.no_grad():
                for p, q in zip(ema.parameters(), net.parameters()):
                    p.lerp_(q, 1e-2)
            if i % 5 == 0:
                print(
                    f"epoch {epoch} {i}/{len(loader)} loss {loss.item():.4f} norm {norm.item():.3f}"
                )
        ema.eval()
        labels = torch.arange(36, device=device) % args.classes
        pics = sample(ema, labels, args.classes, args.size, args.sample_steps, 2.0, device)
        save_image(pics.cpu() * 0.5 + 0.5, f"flow_{epoch}.png", nrow=6)
    torch.save(
        {"net": net.state_dict(), "ema": ema.state_dict(), "opt": opt.state_dict()}, "flow.pt"
    )


if __name__ == "__main__":
    main()
