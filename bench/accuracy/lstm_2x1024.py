"""The `lstm-2x1024` of truth/peaks.json: a small language model that is no transformer."""

import torch
from torch import nn

VOCABULARY = 32000
WIDTH = 1024


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        hidden, _ = self.rnn(self.embedding(ids))
        return self.head(hidden)


def workload(batch, seq):
    logits = None

    def loss(model, ids):
        # A variable of the measured loop: the last step's live until the next step's are there.
        nonlocal logits
        logits = model(ids)
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())

    return {
        "model": Lstm(),
        "batch": lambda: torch.randint(0, VOCABULARY, (batch, seq)),
        "loss": loss,
    }
