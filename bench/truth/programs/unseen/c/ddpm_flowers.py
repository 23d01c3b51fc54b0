"""Diffusion on pixels: a U-Net with attention, averaged weights, fp16 with a scaler, then DDIM draws pictures."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


def time_embedding(t, dim):
    f = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angle = t[:, None].float() * f
    return torch.cat([angle.sin(), angle.cos()], -1)


class ResBlock(nn.Module):
    def __init__(self, i, o, time):
        super().__init__()
        self.a = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        self.t = nn.Linear(time, 2 * o)
        self.norm = nn.GroupNorm(8, o)
        self.b = nn.Sequential(nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.t(F.silu(t))[..., None, None].chunk(2, 1)
        return self.skip(x) + self.b(self.norm(self.a(x)) * (1 + scale) + shift)


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.attention = nn.MultiheadAttention(c, 4, batch_first=True)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        y, _ = self.attention(y, y, y, need_weights=False)
        return x + y.transpose(1, 2).view(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, width, factors=(1, 2, 2, 4)):
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up, kept, c = nn.ModuleList(), nn.ModuleList(), [width], width
        for level, f in enumerate(factors):
            for _ in range(2):
                attention = SelfAttention(f * width) if level >= 2 else nn.Identity()
                self.down.append(nn.ModuleList([ResBlock(c, f * width, time), attention]))
                c = f * width
                kept.append(c)
            if level + 1 < len(factors):
                self.down.append(nn.Conv2d(c, c, 3, 2, 1))
                kept.append(c)
        self.middle = nn.ModuleList([ResBlock(c, c, time), SelfAttention(c), ResBlock(c, c, time)])
        for level, f in reversed(list(enumerate(factors))):
            for _ in range(3):
                attention = SelfAttention(f * width) if level >= 2 else nn.Identity()
                self.up.append(
                    nn.ModuleList([ResBlock(c + kept.pop(), f * width, time), attention])
                )
                c = f * width
            if level:
                self.up.append(nn.Conv2d(c, c, 3, padding=1))
        self.last = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        t = self.time(time_embedding(t, self.width))
        x = self.first(x)
        kept = [x]
        for part in self.down:
            x = part(x) if isinstance(part, nn.Conv2d) else part[1](part[0](x, t))
            kept.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, t)), t)
        for part in self.up:
            if isinstance(part, nn.Conv2d):
                x = part(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            else:
                x = part[1](part[0](torch.cat([x, kept.pop()], 1), t))
        return self.last(x)


@torch.no_grad()
def update(average, model, decay):
    for a, b in zip(average.parameters(), model.parameters(), strict=True):
        a.lerp_(b, 1 - decay)


@torch.no_grad()
def ddim(model, alphas, count, size, steps, device):
    x = torch.randn(count, 3, size, size, device=device)
    times = torch.linspace(len(alphas) - 1, 0, steps).long().tolist()
    for now, after in zip(times, [*times[1:], -1], strict=True):
        t = torch.full((count,), now, device=device)
        noise = model(x, t)
        a = alphas[now]
        b = alphas[after] if after >= 0 else torch.ones((), device=device)
        clean = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        x = b.sqrt() * clean + (1 - b).sqrt() * noise
    return x


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--width", type=int, default=96)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--draw", type=int, default=100)
    p.add_argument("--draw-steps", type=int, default=20)
    a = p.parse_args()
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    half = device.type == "cuda"
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(device)
    model = UNet(a.width).to(device)
    average = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    scaler = torch.amp.GradScaler(device.type, enabled=half)
    flowers = torch.rand(512, 3, a.size, a.size) * 2 - 1
    for step in range(a.steps):
        x = flowers[torch.randint(0, len(flowers), (a.batch,))].to(device)
        t = torch.randint(0, 1000, (a.batch,), device=device)
        noise = torch.randn_like(x)
        k = alphas[t].view(-1, 1, 1, 1)
        with torch.autocast(device.type, dtype=torch.float16, enabled=half):
            guess = model(k.sqrt() * x + (1 - k).sqrt() * noise, t)
            loss = F.mse_loss(guess.float(), noise)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        update(average, model, min(0.999, (1 + step) / (10 + step)))
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    drawn = ddim(average, alphas, a.draw, a.size, a.draw_steps, device)
    torch.save({"average": average.state_dict(), "drawn": drawn.cpu()}, "flowers.pt")
    print(f"drew {tuple(drawn.shape)}")


if __name__ == "__main__":
    main()
