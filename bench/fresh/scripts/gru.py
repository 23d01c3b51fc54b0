"""A tagger: embedding, bidirectional GRU, a linear layer for each token."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, hidden, layers, tags):
        super().__init__()
        self.embedding = nn.Embedding(20000, 300)
        self.gru = nn.GRU(300, hidden, layers, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, tokens):
        out, _ = self.gru(self.embedding(tokens))
        return self.head(out)


def workload(batch=32, seq=128, hidden=512, layers=3, tags=50):
    tokens = torch.randint(0, 20000, (batch, seq))
    labels = torch.randint(0, tags, (batch, seq))
    return {
        "model": Tagger(hidden, layers, tags),
        "batch": (tokens, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(
            model(given[0]).flatten(0, 1), given[1].flatten()
        ),
    }
