"""A graph attention network by hand: scores on edges, a softmax over each node's edges, sums."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, inputs, outputs, heads):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(inputs, heads * outputs, bias=False)
        self.source = nn.Parameter(torch.randn(heads, outputs) * 0.1)
        self.target = nn.Parameter(torch.randn(heads, outputs) * 0.1)
        self.keep = nn.Dropout(0.3)

    def forward(self, x, edges):
        start, end = edges
        h = self.linear(x).view(len(x), self.heads, -1)
        scores = (h * self.source).sum(-1)[start] + (h * self.target).sum(-1)[end]
        scores = nn.functional.leaky_relu(scores, 0.2)
        index = end[:, None].expand_as(scores)
        largest = torch.full_like(h[..., 0], float("-inf")).scatter_reduce(0, index, scores, "amax")
        weights = (scores - largest[end].detach()).exp()
        total = torch.zeros_like(h[..., 0]).scatter_add(0, index, weights)
        weights = self.keep(weights / (total[end] + 1e-9))
        sums = torch.zeros_like(h).index_add(0, end, h[start] * weights[..., None])
        return sums.flatten(1)


class Net(nn.Module):
    def __init__(self, features, width, heads, layers, classes):
        super().__init__()
        widths = [features] + [heads * width] * layers
        self.layers = nn.ModuleList(Attention(i, width, heads) for i in widths[:-1])
        self.norms = nn.ModuleList(nn.LayerNorm(i) for i in widths[1:])
        self.out = nn.Linear(widths[-1], classes)

    def forward(self, x, edges):
        for layer, norm in zip(self.layers, self.norms):
            x = nn.functional.elu(norm(layer(x, edges)))
        return self.out(x)


def workload(nodes=24000, edges=180000, features=256, width=32, heads=6, layers=3, classes=30):
    x = torch.randn(nodes, features)
    pairs = torch.randint(0, nodes, (2, edges))
    labels = torch.randint(0, classes, (nodes,))

    def loss(model, given):
        x, pairs, labels = given
        return nn.functional.cross_entropy(model(x, pairs), labels)

    return {
        "model": Net(features, width, heads, layers, classes),
        "batch": (x, pairs, labels),
        "loss": loss,
    }
