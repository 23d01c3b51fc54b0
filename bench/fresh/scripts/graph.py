"""Messages along the edges of one large graph: gather, sum by target, a gated update."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.gate = nn.GRUCell(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, nodes, source, target):
        sent = self.message(torch.cat([nodes[source], nodes[target]], dim=-1))
        total = torch.zeros_like(nodes).index_add(0, target, sent.to(nodes.dtype))
        return self.norm(self.gate(total, nodes))


class Graph(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.enter = nn.Linear(50, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 7)

    def forward(self, given):
        features, edges = given
        nodes = self.enter(features)
        for layer in self.layers:
            nodes = layer(nodes, edges[0], edges[1])
        return self.head(nodes)


def workload(nodes=30000, edges=210000, width=160, layers=3):
    features = torch.randn(nodes, 50)
    ends = torch.randint(0, nodes, (2, edges))
    labels = torch.randint(0, 7, (nodes,))
    return {
        "model": Graph(width, layers),
        "batch": ((features, ends), labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
