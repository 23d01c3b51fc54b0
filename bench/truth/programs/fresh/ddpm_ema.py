"""A diffusion model with its own U-Net, an averaged copy, and samples drawn after every epoch."""

import argparse
import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()
device = torch.device("cuda")


def timed(t, width):
    f = torch.exp(-math.log(10000) * torch.arange(width // 2, device=t.device) / (width // 2))
    a = t[:, None].float() * f[None]
    return torch.cat([a.sin(), a.cos()], -1)


class Res(nn.Module):
    def __init__(self, a, b, t):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
        self.time = nn.Linear(t, b)
        self.second = nn.Sequential(
            nn.GroupNorm(8, b), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(b, b, 3, padding=1)
        )
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.first(x) + self.time(t)[:, :, None, None]
        return self.second(h) + self.skip(x)


class Attend(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(8, c),
            nn.Conv2d(c, 3 * c, 1),
            nn.Conv2d(c, c, 1),
        )

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, 4, c // 4, h * w).transpose(-1, -2).unbind(1)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, c=96, t=384):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(c, t), nn.SiLU(), nn.Linear(t, t))
        self.width = c
        self.enter = nn.Conv2d(3, c, 3, padding=1)
        self.down = nn.ModuleList([Res(c, c, t), Res(c, 2 * c, t), Res(2 * c, 4 * c, t)])
        self.shrink = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)])
        self.middle, self.attend = Res(4 * c, 4 * c, t), Attend(4 * c)
        self.up = nn.ModuleList([Res(8 * c, 2 * c, t), Res(4 * c, c, t), Res(2 * c, c, t)])
        self.leave = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        t = self.t(timed(t, self.width))
        x, kept = self.enter(x), []
        for i, block in enumerate(self.down):
            x = block(x, t)
            kept.append(x)
            if i < 2:
                x = self.shrink[i](x)
        x = self.attend(self.middle(x, t))
        for i, block in enumerate(self.up):
            x = block(torch.cat([x, kept.pop()], 1), t)
            if i < 2:
                x = nn.functional.interpolate(x, scale_factor=2)
        return self.leave(x)


model = UNet().to(device)
ema = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
betas = torch.linspace(1e-4, 0.02, args.steps, device=device)
alphas = torch.cumprod(1 - betas, 0)
loader = DataLoader(
    TensorDataset(torch.rand(2000, 3, 32, 32) * 2 - 1),
    64,
    shuffle=True,
    num_workers=2,
    drop_last=True,
)
for epoch in range(args.epochs):
    model.train()
    for (x,) in loader:
        x = x.to(device)
        t = torch.randint(0, args.steps, (len(x),), device=device)
        noise = torch.randn_like(x)
        a = alphas[t][:, None, None, None]
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), model.parameters()):
                p.lerp_(q, 0.001)
    with torch.no_grad():
        x = torch.randn(144, 3, 32, 32, device=device)
        for i in reversed(range(args.steps)):
            t = torch.full((144,), i, device=device)
            e = ema(x, t)
            x = (x - betas[i] / (1 - alphas[i]).sqrt() * e) / (1 - betas[i]).sqrt()
            if i:
                x = x + betas[i].sqrt() * torch.randn_like(x)
    print(epoch, loss.item(), x.clamp(-1, 1).mean().item())
    torch.save(ema.state_dict(), "ema.pt")
