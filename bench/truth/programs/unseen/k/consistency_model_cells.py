"""Consistency training of a small U-Net on cell pictures: online network and EMA target network, growing number of noise levels, few-step sampling."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

SIGMA_MIN, SIGMA_MAX, SIGMA_DATA, RHO = 0.002, 80.0, 0.5, 7.0


def karras(n, device):
    i = torch.arange(n, device=device) / (n - 1)
    low, high = SIGMA_MIN ** (1 / RHO), SIGMA_MAX ** (1 / RHO)
    return (low + i * (high - low)) ** RHO


class TimeFeatures(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", torch.randn(dim // 2) * 16)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, 4 * dim))

    def forward(self, sigma):
        a = 0.25 * sigma.log()[:, None] * self.freq * 2 * math.pi
        return self.mlp(torch.cat([a.sin(), a.cos()], 1))


class Res(nn.Module):
    def __init__(self, cin, cout, temb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(16, cin), nn.GroupNorm(16, cout)
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.t = nn.Linear(temb, 2 * cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
        nn.init.zeros_(self.c2.weight)

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.t(F.silu(t))[:, :, None, None].chunk(2, 1)
        h = self.c2(F.silu(self.n2(h) * (1 + scale) + shift))
        return self.skip(x) + h


class UNet(nn.Module):
    def __init__(self, width=96, mults=(1, 2, 3)):
        super().__init__()
        temb = 4 * width
        self.time = TimeFeatures(width)
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        chans = [width * m for m in mults]
        self.down, c = nn.ModuleList(), width
        for ch in chans:
            self.down.append(nn.ModuleList([Res(c, ch, temb), Res(ch, ch, temb)]))
            c = ch
        self.mid = nn.ModuleList([Res(c, c, temb), Res(c, c, temb)])
        self.up = nn.ModuleList()
        for ch in reversed(chans):
            self.up.append(nn.ModuleList([Res(c + ch, ch, temb), Res(ch, ch, temb)]))
            c = ch
        self.leave = nn.Sequential(nn.GroupNorm(16, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, sigma):
        t = self.time(sigma)
        h, stack = self.enter(x), []
        for a, b in self.down:
            h = b(a(h, t), t)
            stack.append(h)
            h = F.avg_pool2d(h, 2)
        for m in self.mid:
            h = m(h, t)
        for a, b in self.up:
            h = F.interpolate(h, scale_factor=2)
            h = b(a(torch.cat([h, stack.pop()], 1), t), t)
        return self.leave(h)


def consistency(net, x, sigma):
    s = sigma[:, None, None, None]
    skip = SIGMA_DATA**2 / ((s - SIGMA_MIN) ** 2 + SIGMA_DATA**2)
    out = SIGMA_DATA * (s - SIGMA_MIN) / (s**2 + SIGMA_DATA**2).sqrt()
    scaled = x / (s**2 + SIGMA_DATA**2).sqrt()
    return skip * x + out * net(scaled, sigma).float()


def cells(n, device, side=96):
    blobs = torch.randn(n, 3, side // 8, side // 8, device=device)
    return F.interpolate(blobs, size=(side, side), mode="bicubic").tanh()


def main(batch=40, steps=50, s0=4, s1=40, mu0=0.9):
    torch.manual_seed(61)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    online = UNet().to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.RAdam(online.parameters(), lr=2e-4)
    for k in range(steps):
        n = math.ceil(math.sqrt(k / steps * ((s1 + 1) ** 2 - s0**2) + s0**2))
        mu = math.exp(s0 * math.log(mu0) / n)
        levels = karras(n, device)
        x = cells(batch, device)
        i = torch.randint(0, n - 1, (batch,), device=device)
        noise = torch.randn_like(x)
        high, low = levels[i + 1], levels[i]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            student = consistency(online, x + high[:, None, None, None] * noise, high)
            with torch.no_grad():
                teacher = consistency(target, x + low[:, None, None, None] * noise, low)
        # pseudo-Huber
        c = 0.00054 * math.sqrt(x[0].numel())
        loss = (((student - teacher) ** 2).flatten(1).sum(1) + c * c).sqrt().sub(c).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for t, o in zip(target.parameters(), online.parameters()):
                t.mul_(mu).add_(o, alpha=1 - mu)
        if k % 10 == 0:
            print(f"step {k} levels {n} mu {mu:.3f} loss {loss.item():.3f}")

    target.eval()
    with torch.inference_mode():
        x = torch.randn(64, 3, 96, 96, device=device) * SIGMA_MAX
        for sigma in (SIGMA_MAX, 24.0, 5.0, 0.8):
            s = torch.full((64,), sigma, device=device)
            x = consistency(target, x, s)
            if sigma > 1:
                x = x + torch.randn_like(x) * sigma * 0.2
    print("samples", tuple(x.shape), "mean", x.mean().item())


if __name__ == "__main__":
    main()
