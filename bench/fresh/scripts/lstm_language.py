"""A language model of LSTM layers whose head shares the weights of the embedding."""

import torch
from torch import nn

WORDS = 33000


class Language(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.3)
        self.head = nn.Linear(width, WORDS)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        out, _ = self.lstm(self.drop(self.embedding(tokens)))
        return self.head(self.drop(out))


def workload(batch=40, seq=90, width=800, layers=3):
    tokens = torch.randint(0, WORDS, (seq + 1, batch))
    return {
        "model": Language(width, layers),
        "batch": (tokens[:-1], tokens[1:]),
        "loss": lambda model, given: nn.functional.cross_entropy(
            model(given[0]).reshape(-1, WORDS), given[1].reshape(-1)
        ),
    }
