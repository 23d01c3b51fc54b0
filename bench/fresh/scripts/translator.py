"""Translation with nn.Transformer: sines for the places, masks for what is padded or still to come."""

import math

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, words, width, heads, layers, longest):
        super().__init__()
        self.source = nn.Embedding(words, width, padding_idx=0)
        self.target = nn.Embedding(words, width, padding_idx=0)
        place = torch.arange(longest)[:, None]
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        waves = torch.stack([torch.sin(place * rate), torch.cos(place * rate)], dim=-1)
        self.register_buffer("places", waves.flatten(1))
        self.transformer = nn.Transformer(
            width, heads, layers, layers, 4 * width, dropout=0.1, batch_first=True
        )
        self.out = nn.Linear(width, words)

    def forward(self, source, target):
        n = target.shape[1]
        later = torch.ones(n, n, dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer(
            self.source(source) + self.places[: source.shape[1]],
            self.target(target) + self.places[:n],
            tgt_mask=later,
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return self.out(hidden)


def workload(batch=36, words=96, vocabulary=24000, width=512, heads=8, layers=5):
    source = torch.randint(1, vocabulary, (batch, words))
    target = torch.randint(1, vocabulary, (batch, words + 1))

    def loss(model, given):
        source, target = given
        scores = model(source, target[:, :-1])
        return nn.functional.cross_entropy(
            scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1
        )

    return {
        "model": Translator(vocabulary, width, heads, layers, 2 * words),
        "batch": (source, target),
        "loss": loss,
    }
