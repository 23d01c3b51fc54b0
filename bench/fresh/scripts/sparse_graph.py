"""Graph convolutions as products with one sparse matrix of neighbours, with residuals."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x, neighbours):
        near = torch.sparse.mm(neighbours, self.linear(x))
        return x + nn.functional.dropout(torch.relu(self.norm(near)), 0.3, self.training)


class Net(nn.Module):
    def __init__(self, features, width, layers, classes):
        super().__init__()
        self.inner = nn.Linear(features, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.out = nn.Linear(width, classes)

    def forward(self, x, neighbours):
        x = torch.relu(self.inner(x))
        for layer in self.layers:
            x = layer(x, neighbours)
        return self.out(x)


def workload(nodes=60000, edges=500000, features=300, width=320, layers=5, classes=40):
    x = torch.randn(nodes, features)
    pairs = torch.randint(0, nodes, (2, edges))
    weights = torch.full((edges,), nodes / edges)
    neighbours = torch.sparse_coo_tensor(pairs, weights, (nodes, nodes))
    labels = torch.randint(0, classes, (nodes,))

    def loss(model, given):
        x, neighbours, labels = given
        return nn.functional.cross_entropy(model(x, neighbours), labels)

    return {
        "model": Net(features, width, layers, classes),
        "batch": (x, neighbours, labels),
        "loss": loss,
    }
