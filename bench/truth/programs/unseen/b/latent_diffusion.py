"""Class-conditional diffusion transformer on latents: velocity loss, averaged weights, guided sampling at the end."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim)
        )
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        s1, k1, g1, s2, k2, g2 = self.ada(c).chunk(6, -1)
        b, n, d = x.shape
        q, k, v = (
            self.qkv(modulate(self.norm1(x), s1, k1))
            .view(b, n, 3, self.heads, -1)
            .permute(2, 0, 3, 1, 4)
        )
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + g1[:, None] * self.proj(a)
        return x + g2[:, None] * self.mlp(modulate(self.norm2(x), s2, k2))


class DiT(nn.Module):
    def __init__(self, size, patch, channels, dim, depth, classes):
        super().__init__()
        self.size, self.patch, self.channels, self.classes = size, patch, channels, classes
        self.embed = nn.Conv2d(channels, dim, patch, patch)
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.label = nn.Embedding(classes + 1, dim)
        self.blocks = nn.ModuleList(DiTBlock(dim, dim // 64) for _ in range(depth))
        self.out = nn.Linear(dim, patch * patch * channels)

    def forward(self, x, t, y):
        freqs = torch.exp(-math.log(10_000) * torch.arange(128, device=x.device) / 128)
        angles = 1000 * t[:, None] * freqs
        c = self.time(torch.cat([angles.cos(), angles.sin()], -1)) + self.label(y)
        h = self.embed(x).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            h = block(h, c)
        n = self.size // self.patch
        h = self.out(h).view(-1, n, n, self.patch, self.patch, self.channels)
        return h.permute(0, 5, 1, 3, 2, 4).reshape(x.shape)


@torch.no_grad()
def sample(model, labels, shape, steps, guidance, device):
    x = torch.randn(len(labels), *shape, device=device)
    nothing = torch.full_like(labels, model.classes)
    times = torch.linspace(1, 0, steps + 1).tolist()
    for now, then in zip(times, times[1:], strict=False):
        t = torch.full((2 * len(x),), now, device=device)
        both = model(torch.cat([x, x]), t, torch.cat([labels, nothing]))
        cond, free = both.chunk(2)
        x = x + (then - now) * (free + guidance * (cond - free))
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latents", type=int, default=2000)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--draw", type=int, default=400)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = (args.channels, args.size, args.size)
    data = TensorDataset(torch.randn(args.latents, *shape), torch.randint(0, 1000, (args.latents,)))
    loader = DataLoader(data, args.batch, shuffle=True, drop_last=True)
    model = DiT(args.size, 2, args.channels, args.dim, args.depth, 1000).to(device)
    ema = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            y = torch.where(torch.rand(len(y), device=device) < 0.1, model.classes, y)
            t = torch.sigmoid(torch.randn(len(x), device=device))
            noise = torch.randn_like(x)
            w = t[:, None, None, None]
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.mse_loss(model((1 - w) * x + w * noise, t, y).float(), noise - x)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for a, b in zip(ema.parameters(), model.parameters(), strict=True):
                    a.mul_(0.999).add_(b, alpha=0.001)
        print(f"epoch {epoch}: {loss.item():.4f}")
    labels = torch.randint(0, 1000, (args.draw,), device=device)
    images = sample(ema, labels, shape, args.steps, 4.0, device)
    torch.save({"ema": ema.state_dict(), "images": images.cpu()}, "dit.pt")
    print(f"drew {tuple(images.shape)}, std {images.std():.3f}")


if __name__ == "__main__":
    main()
