"""Transformer layers whose experts choose their tokens, so that each takes the same number."""

import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, width, inner, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.enter = nn.Parameter(torch.randn(experts, width, inner) * 0.02)
        self.leave = nn.Parameter(torch.randn(experts, inner, width) * 0.02)

    def forward(self, x):
        flat = x.flatten(0, 1)
        chances = self.router(flat).softmax(dim=-1)
        taken = 2 * flat.shape[0] // self.enter.shape[0]
        weights, index = chances.t().topk(taken, dim=-1)
        inner = nn.functional.gelu(torch.bmm(flat[index], self.enter.to(flat.dtype)))
        out = torch.bmm(inner, self.leave.to(inner.dtype)) * weights.unsqueeze(-1).to(inner.dtype)
        made = torch.zeros_like(flat, dtype=out.dtype)
        return made.index_add(0, index.flatten(), out.flatten(0, 1)).view(x.shape)


class Layer(nn.Module):
    def __init__(self, width, heads, experts):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.experts = Experts(width, 2 * width, experts)

    def forward(self, x):
        ready = self.norms[0](x)
        x = x + self.attention(ready, ready, ready, need_weights=False)[0]
        return x + self.experts(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, width, heads, layers, experts, words):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.Sequential(*[Layer(width, heads, experts) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens)))


def workload(batch=8, seq=500, width=512, heads=8, layers=6, experts=8, words=20000):
    tokens = torch.randint(0, words, (batch, seq))
    labels = torch.randint(0, words, (batch, seq))
    return {
        "model": Model(width, heads, layers, experts, words),
        "batch": (tokens, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(
            model(given[0]).flatten(0, 1), given[1].flatten()
        ),
    }
