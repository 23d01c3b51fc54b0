"""A decoder by hand: rotated queries and keys, few key-value heads, gated layers, checkpoints."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        long = x.float()
        return self.weight * (long * long.square().mean(-1, True).add(1e-6).rsqrt()).type_as(x)


def rotate(x, angles):
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos(), angles.sin()
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return turned.flatten(-2).type_as(x)


class Layer(nn.Module):
    def __init__(self, width, heads, pairs, hidden):
        super().__init__()
        self.size, self.heads, self.pairs = width // heads, heads, pairs
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, pairs * self.size, bias=False)
        self.value = nn.Linear(width, pairs * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, angles):
        b, n, _ = x.shape
        h = self.norm1(x)
        q = rotate(self.query(h).view(b, n, self.heads, -1).transpose(1, 2), angles)
        k = rotate(self.key(h).view(b, n, self.pairs, -1).transpose(1, 2), angles)
        v = self.value(h).view(b, n, self.pairs, -1).transpose(1, 2)
        times = self.heads // self.pairs
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, -1))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, words, width, heads, pairs, hidden, layers):
        super().__init__()
        self.size = width // heads
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, pairs, hidden) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        rates = 10000 ** (-torch.arange(0, self.size, 2, device=ids.device) / self.size)
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * rates
        x = self.words(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, angles, use_reentrant=False)
        return self.head(self.norm(x))


def workload(batch=12, seq=640, words=32000, width=896, heads=14, pairs=2, hidden=2432, layers=12):
    ids = torch.randint(0, words, (batch, seq + 1))

    def loss(model, ids):
        scores = model(ids[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1).float(), ids[:, 1:].flatten())

    return {
        "model": Decoder(words, width, heads, pairs, hidden, layers),
        "batch": ids,
        "loss": loss,
    }
