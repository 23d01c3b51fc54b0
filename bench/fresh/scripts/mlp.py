"""A wide autoencoder for tables: linear layers, layer norm, GELU, mean squared error."""

import torch
from torch import nn


def workload(batch=4096, inputs=2048, width=4096, depth=4):
    sizes = [inputs] + [width] * depth
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.LayerNorm(o), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(width, inputs))
    rows = torch.randn(batch, inputs)
    return {
        "model": model,
        "batch": rows,
        "loss": lambda model, given: nn.functional.mse_loss(model(given), given),
    }
