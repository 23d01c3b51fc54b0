"""A recurrent tagger with minimal gated cells written by hand, both ways, pooled by attention."""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.enter = nn.Linear(width, 2 * width)
        self.forget = nn.Linear(width, width, bias=False)
        self.new = nn.Linear(width, width, bias=False)

    def forward(self, inputs, backwards):
        ready = self.enter(inputs)
        steps = range(inputs.shape[1])
        hidden = torch.zeros_like(inputs[:, 0])
        states = []
        for step in reversed(steps) if backwards else steps:
            gate, new = ready[:, step].chunk(2, dim=-1)
            gate = torch.sigmoid(gate + self.forget(hidden))
            new = torch.tanh(new + self.new(gate * hidden))
            hidden = torch.lerp(hidden, new.to(hidden.dtype), gate.to(hidden.dtype))
            states.append(hidden)
        return torch.stack(states[::-1] if backwards else states, dim=1)


class Tagger(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.forth = nn.ModuleList(Cell(width) for _ in range(layers))
        self.back = nn.ModuleList(Cell(width) for _ in range(layers))
        self.join = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, 90)

    def forward(self, ids):
        x = self.embed(ids)
        for forth, back, join, norm in zip(self.forth, self.back, self.join, self.norms):
            both = torch.cat([forth(x, False), back(x, True)], dim=-1)
            x = norm(x + join(both))
        weights = self.score(x).softmax(dim=1)
        return self.head((weights * x).sum(dim=1))


def workload(batch=75, seq=110, words=24000, width=576, layers=2):
    ids = torch.randint(0, words, (batch, seq))
    labels = torch.randint(0, 90, (batch,))
    return {
        "model": Tagger(words, width, layers),
        "batch": (ids, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(
            model(given[0]), given[1], label_smoothing=0.1
        ),
    }
