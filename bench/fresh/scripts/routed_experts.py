"""A decoder whose tokens choose two experts each: every expert takes the rows that asked for it."""

import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, width, hidden, count, chosen):
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
            for _ in range(count)
        )

    def forward(self, x):
        flat = x.flatten(0, 1)
        share = self.router(flat).float().softmax(dim=-1)
        weights, which = share.topk(self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, place = torch.where(which == index)
            answer = expert(flat[rows]) * weights[rows, place, None]
            out.index_add_(0, rows, answer.to(out.dtype))
        busy = nn.functional.one_hot(which, len(self.experts)).float().mean(dim=(0, 1))
        return out.view_as(x), (busy * share.mean(dim=0)).sum() * len(self.experts)


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, count, chosen):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.experts = Experts(width, hidden, count, chosen)

    def forward(self, x, later):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=later, need_weights=False)[0]
        out, balance = self.experts(self.norm2(x))
        return x + out, balance


class Model(nn.Module):
    def __init__(self, words, width, heads, hidden, count, chosen, layers, longest):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(
            Layer(width, heads, hidden, count, chosen) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        n = ids.shape[1]
        later = torch.ones(n, n, dtype=torch.bool, device=ids.device).triu(1)
        x = self.words(ids) + self.places(torch.arange(n, device=ids.device))
        total = 0
        for layer in self.layers:
            x, balance = layer(x, later)
            total = total + balance
        return self.head(self.norm(x)), total


def workload(batch=10, seq=512, words=20000, width=640, heads=10, hidden=1280, count=8, layers=6):
    ids = torch.randint(0, words, (batch, seq + 1))

    def loss(model, ids):
        scores, balance = model(ids[:, :-1])
        text = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
        return text + 0.01 * balance

    model = Model(words, width, heads, hidden, count, 2, layers, seq)
    return {"model": model, "batch": ids, "loss": loss}
