"""A translator: GRU encoder, GRU decoder, attention by products of their states."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, width, words):
        super().__init__()
        self.source = nn.Embedding(words, width)
        self.target = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, 2, batch_first=True, bidirectional=True)
        self.join = nn.Linear(2 * width, width)
        self.decoder = nn.GRU(width, width, 2, batch_first=True)
        self.head = nn.Linear(2 * width, words)

    def forward(self, source, target):
        states = self.join(self.encoder(self.source(source))[0])
        out, _ = self.decoder(self.target(target))
        weights = torch.softmax(torch.bmm(out, states.transpose(1, 2)), dim=-1)
        return self.head(torch.cat([out, torch.bmm(weights, states)], dim=-1))


def workload(batch=48, seq=70, width=640, words=24000):
    source = torch.randint(0, words, (batch, seq))
    target = torch.randint(0, words, (batch, seq))

    def loss(model, given):
        logits = model(given[0], given[1][:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), given[1][:, 1:].flatten())

    return {"model": Translator(width, words), "batch": (source, target), "loss": loss}
