"""A frozen encoder of PyTorch's own layers, with thin trained matrices beside its feed-forwards."""

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, inner, rank, scale=2.0):
        super().__init__()
        self.inner, self.scale = inner.requires_grad_(False), scale
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x):
        return self.inner(x) + self.scale * self.up(self.down(self.dropout(x)))


class Layer(nn.Module):
    def __init__(self, width, heads, rank):
        super().__init__()
        self.heads = heads
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.requires_grad_(False)
        self.mix, self.inner = Adapted(self.mix, rank), Adapted(self.inner, rank)
        self.outer = Adapted(self.outer, rank)

    def forward(self, x):
        b, s, w = x.shape
        mixed = self.mix(self.norm(x)).view(b, s, 3, self.heads, w // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, s, w))
        return x + self.outer(nn.functional.gelu(self.inner(self.after(x))))


class Classifier(nn.Module):
    def __init__(self, words, width, layers, heads, rank, longest, classes):
        super().__init__()
        self.words = nn.Embedding(words, width).requires_grad_(False)
        self.places = nn.Parameter(torch.randn(longest, width), requires_grad=False)
        self.layers = nn.Sequential(*(Layer(width, heads, rank) for _ in range(layers)))
        self.out = nn.Linear(width, classes)

    def forward(self, ids):
        return self.out(self.layers(self.words(ids) + self.places).mean(dim=1))


def workload(batch=10, seq=512, words=40000, width=1280, layers=16, heads=20, rank=16, classes=9):
    def given():
        return torch.randint(0, words, (batch, seq)), torch.randint(0, classes, (batch,))

    return {
        "model": Classifier(words, width, layers, heads, rank, seq, classes),
        "batch": given,
        "loss": lambda model, made: nn.functional.cross_entropy(model(made[0]).float(), made[1]),
    }
