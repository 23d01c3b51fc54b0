"""Time series forecasting with a compiled patch transformer and a compiled quantile loss."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series, length, context, horizon):
        generator = torch.Generator().manual_seed(4)
        t = torch.arange(length)[:, None] / 24
        phase = torch.rand(1, series, generator=generator) * 6.28
        noise = 0.1 * torch.randn(length, series, generator=generator)
        self.data = torch.sin(t * 6.28 + phase) + 0.01 * t + noise
        self.context, self.horizon = context, horizon

    def __len__(self):
        return len(self.data) - self.context - self.horizon

    def __getitem__(self, i):
        j = i + self.context
        return self.data[i:j].T, self.data[j : j + self.horizon].T


class PatchTransformer(nn.Module):
    def __init__(self, context, horizon, patch, dim, depth, quantiles):
        super().__init__()
        self.patch, self.horizon, self.quantiles = patch, horizon, quantiles
        n = context // patch
        self.embed = nn.Linear(patch, dim)
        self.position = nn.Parameter(torch.randn(n, dim) * 0.02)
        self.layers = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "norm1": nn.LayerNorm(dim),
                        "qkv": nn.Linear(dim, dim * 3),
                        "out": nn.Linear(dim, dim),
                        "norm2": nn.LayerNorm(dim),
                        "mlp": nn.Sequential(
                            nn.Linear(dim, dim * 4), nn.SiLU(), nn.Linear(dim * 4, dim)
                        ),
                    }
                )
                for _ in range(depth)
            ]
        )
        self.head = nn.Linear(n * dim, horizon * quantiles)
        self.n_heads = dim // 32

    def forward(self, x):
        b, c, length = x.shape
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True) + 1e-5
        x = ((x - mean) / std).reshape(b * c, length // self.patch, self.patch)
        x = self.embed(x) + self.position
        for layer in self.layers:
            n, t, d = x.shape
            q, k, v = layer["qkv"](layer["norm1"](x)).chunk(3, -1)
            q, k, v = (z.view(n, t, self.n_heads, -1).transpose(1, 2) for z in (q, k, v))
            a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d)
            x = x + layer["out"](a)
            x = x + layer["mlp"](layer["norm2"](x))
        y = self.head(x.flatten(1)).view(b, c, self.horizon, self.quantiles)
        return y * std[..., None] + mean[..., None]


def quantile_loss(prediction, target, levels):
    error = target[..., None] - prediction
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=64)
    parser.add_argument("--length", type=int, default=1600)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    levels = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9], device=device)
    data = Windows(args.series, args.length, args.context, args.horizon)
    loader = DataLoader(data, args.batch, shuffle=True, drop_last=True, num_workers=2)
    model = PatchTransformer(
        args.context, args.horizon, args.patch, args.dim, args.depth, len(levels)
    ).to(device)
    loss_fn = quantile_loss
    if args.compile:
        model = torch.compile(model)
        loss_fn = torch.compile(quantile_loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    for epoch in range(args.epochs):
        start, total = time.time(), 0.0
        for context, target in loader:
            context, target = context.to(device), target.to(device)
            loss = loss_fn(model(context), target, levels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f} in {time.time() - start:.1f} s")
    state = getattr(model, "_orig_mod", model).state_dict()
    torch.save(state, "forecaster.pt")


if __name__ == "__main__":
    main()
