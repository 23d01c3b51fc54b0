"""A decoder with fewer keys than queries and gated layers, every other one checkpointed by hand."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        inner = width * 8 // 3
        self.gate, self.up = nn.Linear(width, inner), nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        b, s, w = x.shape
        seen = self.norm(x)
        query = self.query(seen).view(b, s, self.heads, self.size).transpose(1, 2)
        pair = self.pair(seen).view(b, s, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        key, value = pair.repeat_interleave(self.heads // self.groups, dim=2)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, s, w))
        seen = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(seen)) * self.up(seen))


class Decoder(nn.Module):
    def __init__(self, words, width, layers, heads, groups, longest):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads, groups) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for index, layer in enumerate(self.layers):
            again = self.training and index % 2
            x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        return self.out(self.norm(x))


def workload(batch=8, seq=768, words=24000, width=960, layers=12, heads=15, groups=3):
    def loss(model, ids):
        scores = model(ids[:, :-1]).float()
        return nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())

    return {
        "model": Decoder(words, width, layers, heads, groups, seq),
        "batch": lambda: torch.randint(0, words, (batch, seq + 1)),
        "loss": loss,
    }
