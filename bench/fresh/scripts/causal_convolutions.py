"""A temporal convolutional network: padded on the left and cut, weight norms, growing dilation."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Cut(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class Block(nn.Module):
    def __init__(self, inputs, outputs, kernel, dilation):
        super().__init__()
        past = (kernel - 1) * dilation
        layers = []
        for channels in (inputs, outputs):
            layers += [
                weight_norm(nn.Conv1d(channels, outputs, kernel, padding=past, dilation=dilation)),
                Cut(past),
                nn.ReLU(),
                nn.Dropout(0.2),
            ]
        self.layers = nn.Sequential(*layers)
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x):
        return torch.relu(self.layers(x) + (x if self.skip is None else self.skip(x)))


class Network(nn.Module):
    def __init__(self, words, width, layers, kernel):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(
            *(Block(width, width, kernel, 2**index) for index in range(layers))
        )
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        return self.out(self.blocks(self.words(ids).transpose(1, 2)).transpose(1, 2))


def workload(batch=40, seq=3000, words=256, width=160, layers=7, kernel=5):
    ids = torch.randint(0, words, (batch, seq + 1))

    def loss(model, ids):
        scores = model(ids[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())

    return {"model": Network(words, width, layers, kernel), "batch": ids, "loss": loss}
