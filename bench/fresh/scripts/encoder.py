"""PyTorch's own transformer encoder over continuous features, as for time series."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.enter = nn.Linear(64, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(self.enter(x)).mean(dim=1))


def workload(batch=16, seq=512, width=512, heads=8, layers=6):
    features = torch.randn(batch, seq, 64)
    labels = torch.randint(0, 10, (batch,))
    return {
        "model": Encoder(width, heads, layers),
        "batch": (features, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
