"""A few latents read a long input by attention written with einsum, then talk among themselves."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.query = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)
        )

    def forward(self, x, seen):
        q = self.query(self.norms[0](x)).unflatten(-1, (self.heads, -1))
        k, v = self.pair(self.norms[1](seen)).unflatten(-1, (2, self.heads, -1)).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
        read = torch.einsum("bhij,bjhd->bihd", scores.softmax(dim=-1), v)
        x = x + self.out(read.flatten(2))
        return x + self.mlp(self.norms[2](x))


class Latents(nn.Module):
    def __init__(self, width, heads, latents, layers):
        super().__init__()
        self.enter = nn.Linear(32, width)
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.read = Attention(width, heads)
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 20)

    def forward(self, inputs):
        x = self.latents.expand(inputs.shape[0], -1, -1)
        x = self.read(x, self.enter(inputs))
        for layer in self.layers:
            x = layer(x, x)
        return self.head(x.mean(dim=1))


def workload(batch=8, seq=6000, width=448, heads=7, latents=300, layers=5):
    inputs = torch.randn(batch, seq, 32)
    labels = torch.randint(0, 20, (batch,))
    return {
        "model": Latents(width, heads, latents, layers),
        "batch": (inputs, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
