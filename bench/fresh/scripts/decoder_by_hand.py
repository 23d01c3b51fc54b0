"""A small GPT written by hand: one projection for query, key and value, masked scores, softmax."""

import math

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x, mask):
        b, t, w = x.shape
        q, k, v = (
            part.view(b, t, self.heads, w // self.heads).transpose(1, 2)
            for part in self.qkv(self.first(x)).split(w, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(w // self.heads)
        weights = torch.softmax(scores.masked_fill(mask[:t, :t], float("-inf")), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.second(x))


class Decoder(nn.Module):
    def __init__(self, width, heads, layers, words, longest):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(longest, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        mask = torch.triu(torch.ones(longest, longest, dtype=torch.bool), diagonal=1)
        self.register_buffer("mask", mask)

    def forward(self, tokens):
        x = self.words(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def workload(batch=10, seq=384, width=576, heads=9, layers=8, words=28000):
    tokens = torch.randint(0, words, (batch, seq))

    def loss(model, given):
        logits = model(given)[:, :-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1), given[:, 1:].flatten())

    return {"model": Decoder(width, heads, layers, words, 512), "batch": tokens, "loss": loss}
