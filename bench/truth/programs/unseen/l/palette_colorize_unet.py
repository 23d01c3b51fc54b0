"""Palette: colour old photographs by conditional diffusion.

U-Net with attention, v-prediction and min-SNR weighting, bf16, EMA, checkpoint of both networks, DDIM sampling of the EMA at the end.
"""

import argparse
import copy
import math
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn


def time_embedding(t, dim):
    freq = torch.exp(-math.log(10_000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angle = t[:, None].float() * freq * 1000
    return torch.cat([angle.sin(), angle.cos()], 1)


class Res(nn.Module):
    def __init__(self, cin, cout, emb, groups):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(groups, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.n2, self.c2 = nn.GroupNorm(groups, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
        nn.init.zeros_(self.c2.weight)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.emb(F.silu(e))[..., None, None].chunk(2, 1)
        h = self.n2(h) * (1 + scale) + shift
        return self.skip(x) + self.c2(self.drop(F.silu(h)))


class SelfAttention(nn.Module):
    def __init__(self, c, groups, heads=4):
        super().__init__()
        self.norm, self.qkv, self.out, self.heads = (
            nn.GroupNorm(groups, c),
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
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w)
        return x + self.out(y)


class UNet(nn.Module):
    def __init__(self, c=96, mult=(1, 2, 3, 4), blocks=2, attend=(2, 3), groups=16):
        super().__init__()
        emb = 4 * c
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.enter = nn.Conv2d(4, c, 3, padding=1)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        widths, ch = [c], c
        for i, m in enumerate(mult):
            for _ in range(blocks):
                attn = SelfAttention(m * c, groups) if i in attend else nn.Identity()
                self.downs.append(nn.ModuleList([Res(ch, m * c, emb, groups), attn]))
                ch = m * c
                widths.append(ch)
            if i < len(mult) - 1:
                self.downs.append(nn.Conv2d(ch, ch, 3, 2, 1))
                widths.append(ch)
        self.mid1, self.mid_attn, self.mid2 = (
            Res(ch, ch, emb, groups),
            SelfAttention(ch, groups),
            Res(ch, ch, emb, groups),
        )
        for i, m in reversed(list(enumerate(mult))):
            for j in range(blocks + 1):
                attn = SelfAttention(m * c, groups) if i in attend else nn.Identity()
                up = nn.Conv2d(m * c, m * c, 3, padding=1) if i and j == blocks else nn.Identity()
                self.ups.append(
                    nn.ModuleList([Res(ch + widths.pop(), m * c, emb, groups), attn, up])
                )
                ch = m * c
        self.leave = nn.Sequential(
            nn.GroupNorm(groups, ch), nn.SiLU(), nn.Conv2d(ch, 3, 3, padding=1)
        )

    def forward(self, x, gray, t):
        e = self.time(time_embedding(t, self.c))
        x = self.enter(torch.cat([x, gray], 1))
        kept = [x]
        for layer in self.downs:
            x = layer(x) if isinstance(layer, nn.Conv2d) else layer[1](layer[0](x, e))
            kept.append(x)
        x = self.mid2(self.mid_attn(self.mid1(x, e)), e)
        for res, attn, up in self.ups:
            x = attn(res(torch.cat([x, kept.pop()], 1), e))
            if not isinstance(up, nn.Identity):
                x = up(F.interpolate(x, scale_factor=2.0))
        return self.leave(x)


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2), torch.sin(t * math.pi / 2)


def photographs(n, side, gen, device):
    x = torch.rand(n, 3, side // 8, side // 8, generator=gen, device=device)
    x = F.interpolate(x, size=side, mode="bilinear", align_corners=False) * 2 - 1
    return x, x.mean(1, keepdim=True)


def loss_fn(net, x, gray, gamma=5.0):
    t = torch.rand(len(x), device=x.device) * 0.998 + 0.001
    a, s = (z.view(-1, 1, 1, 1) for z in alpha_sigma(t))
    noise = torch.randn_like(x)
    v = net(a * x + s * noise, gray, t).float()
    snr = (a / s).pow(2).flatten()
    weight = snr.clamp(max=gamma) / (snr + 1)
    return (weight * (v - (a * noise - s * x)).pow(2).mean((1, 2, 3))).mean()


@torch.no_grad()
def ddim(net, gray, steps, gen):
    x = torch.randn(len(gray), 3, *gray.shape[-2:], device=gray.device, generator=gen)
    times = torch.linspace(0.999, 0.0, steps + 1, device=gray.device)
    for now, then in zip(times[:-1], times[1:]):
        a, s = alpha_sigma(now)
        v = net(x, gray, now.expand(len(x))).float()
        x0, eps = (a * x - s * v).clamp(-1, 1), s * x + a * v
        a, s = alpha_sigma(then)
        x = a * x0 + s * eps
    return x


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--channels", type=int, default=96)
    p.add_argument("--side", type=int, default=128)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--sample-steps", type=int, default=25)
    a = p.parse_args()
    torch.manual_seed(66)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gen = torch.Generator(device=device).manual_seed(66)
    net = UNet(a.channels).to(device)
    ema = copy.deepcopy(net).eval().requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=8)
    for step in range(1, a.steps + 1):
        x, gray = photographs(a.batch, a.side, gen, device)
        with torch.autocast(device, torch.bfloat16):
            loss = loss_fn(net, x, gray)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        decay = min(0.999, step / (step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 1 - decay)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    with tempfile.TemporaryDirectory() as folder:
        torch.save(
            {"net": net.state_dict(), "ema": ema.state_dict(), "opt": opt.state_dict()},
            os.path.join(folder, "palette.pt"),
        )
    truth, gray = photographs(a.batch // 2, a.side, gen, device)
    with torch.autocast(device, torch.bfloat16):
        colored = ddim(ema, gray, a.sample_steps, gen)
    print("L1 to the truth", (colored - truth).abs().mean().item())


if __name__ == "__main__":
    main()
