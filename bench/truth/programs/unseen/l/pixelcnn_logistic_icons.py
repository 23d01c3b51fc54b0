"""Gated PixelCNN with a mixture of discretized logistics on 32 x 32 icons, class conditional; Polyak average, bits/dim, samples the upper rows at the end."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

KINDS = 12


class DownConv(nn.Conv2d):
    """Sees rows above (vertical stack)."""

    def __init__(self, cin, cout, k):
        super().__init__(cin, cout, (k // 2 + 1, k))
        self.pad = (k // 2, k // 2, k // 2, 0)

    def forward(self, x):
        return super().forward(F.pad(x, self.pad))


class RightConv(nn.Conv2d):
    def __init__(self, cin, cout, k):
        super().__init__(cin, cout, (1, k // 2 + 1))
        self.pad = (k // 2, 0, 0, 0)

    def forward(self, x):
        return super().forward(F.pad(x, self.pad))


def shift_down(x):
    return F.pad(x, (0, 0, 1, 0))[:, :, :-1]


def shift_right(x):
    return F.pad(x, (1, 0))[..., :-1]


def gate(x):
    a, b = x.chunk(2, 1)
    return torch.tanh(a) * torch.sigmoid(b)


class GatedLayer(nn.Module):
    def __init__(self, c, k=5, dropout=0.2):
        super().__init__()
        self.v, self.h = DownConv(c, 2 * c, k), RightConv(c, 2 * c, k)
        self.v2h, self.out = nn.Conv2d(2 * c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.kind = nn.Embedding(KINDS, 4 * c)
        self.drop = nn.Dropout2d(dropout)

    def forward(self, v, h, y):
        kv, kh = self.kind(y)[..., None, None].chunk(2, 1)
        fv = self.v(v)
        fh = self.h(h) + self.v2h(shift_down(fv))
        return v + gate(fv + kv), h + self.out(self.drop(gate(fh + kh)))


class PixelCNN(nn.Module):
    def __init__(self, c, layers, mixtures):
        super().__init__()
        self.v_in, self.h_in = DownConv(4, c, 7), RightConv(4, c, 7)
        self.layers = nn.ModuleList(GatedLayer(c) for _ in range(layers))
        self.tail = nn.Sequential(
            nn.ReLU(), nn.Conv2d(c, c, 1), nn.ReLU(), nn.Conv2d(c, mixtures * 7, 1)
        )

    def forward(self, x, y):
        x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        v, h = self.v_in(shift_down(x)), self.h_in(shift_right(x))
        for layer in self.layers:
            v, h = layer(v, h, y)
        return self.tail(h)


def split(params):
    b, _, h, w = params.shape
    m = params.shape[1] // 7
    weight = params[:, :m]
    mean, scale = params[:, m:].view(b, 2, 3, m, h, w).unbind(1)
    return weight, mean, scale.clamp(min=-7)


def nll(params, x):
    weight, mean, log_s = split(params)
    x = x.unsqueeze(2)
    centered, inv = x - mean, torch.exp(-log_s)
    plus, minus = inv * (centered + 1 / 255), inv * (centered - 1 / 255)
    cdf_plus, cdf_minus = torch.sigmoid(plus), torch.sigmoid(minus)
    low, high = plus - F.softplus(plus), -F.softplus(minus)
    mid = inv * centered
    pdf = mid - log_s - 2 * F.softplus(mid) - math.log(127.5)
    delta = cdf_plus - cdf_minus
    inner = torch.where(delta > 1e-5, delta.clamp(min=1e-12).log(), pdf)
    logp = torch.where(x < -0.999, low, torch.where(x > 0.999, high, inner)).sum(1)
    return -torch.logsumexp(logp + F.log_softmax(weight, 1), 1).sum((1, 2))


@torch.no_grad()
def sample(net, n, size, rows, device):
    x = torch.zeros(n, 3, size, size, device=device)
    y = torch.arange(n, device=device) % KINDS
    for i in range(rows):
        for j in range(size):
            weight, mean, log_s = split(net(x, y)[:, :, i : i + 1, j : j + 1])
            pick = torch.distributions.Categorical(logits=weight.flatten(1)).sample()
            at = pick.view(n, 1, 1, 1, 1).expand(n, 3, 1, 1, 1)
            mu, s = mean.gather(2, at).flatten(1), log_s.gather(2, at).flatten(1).exp()
            u = torch.rand_like(mu).clamp(1e-5, 1 - 1e-5)
            x[:, :, i, j] = (mu + s * (u.log() - (1 - u).log())).clamp(-1, 1)
    return x


def icons(n, size, gen, device):
    y = torch.randint(0, KINDS, (n,), generator=gen)
    small = torch.randint(0, 256, (n, 3, size // 4, size // 4), generator=gen).float()
    x = F.interpolate(small, size=size, mode="bilinear", align_corners=False).round() / 127.5 - 1
    return x.to(device), y.to(device)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--channels", type=int, default=128)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--mixtures", type=int, default=10)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--steps", type=int, default=36)
    p.add_argument("--rows", type=int, default=10)
    a = p.parse_args()
    torch.manual_seed(44)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = PixelCNN(a.channels, a.layers, a.mixtures).to(device)
    averaged = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.95)
    )
    opt = torch.optim.Adam(net.parameters(), lr=4e-4, betas=(0.95, 0.9995))
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.999)
    gen = torch.Generator().manual_seed(1)
    dims = 3 * a.size**2 * math.log(2)
    for step in range(1, a.steps + 1):
        x, y = icons(a.batch, a.size, gen, device)
        loss = nll(net(x, y), x).mean() / dims
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        averaged.update_parameters(net)
        if step % 12 == 0:
            print(f"step {step}: {loss.item():.3f} bits/dim")
    averaged.eval()
    with torch.no_grad():
        x, y = icons(2 * a.batch, a.size, gen, device)
        print("test bits/dim", (nll(averaged(x, y), x).mean() / dims).item())
    print("sample mean", sample(averaged, 24, a.size, a.rows, device).mean().item())


if __name__ == "__main__":
    main()
