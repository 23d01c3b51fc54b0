"""Points with their nearest neighbours: distances, gathered edges, maxima, a vector for the cloud."""

import torch
from torch import nn


class Edges(nn.Module):
    def __init__(self, inputs, outputs, near):
        super().__init__()
        self.near = near
        self.layers = nn.Sequential(
            nn.Conv2d(2 * inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.2),
        )

    def forward(self, x):
        points = x.transpose(1, 2)
        inner = points @ x
        size = x.square().sum(dim=1)
        distances = size[:, :, None] - 2 * inner + size[:, None, :]
        index = distances.topk(self.near, dim=-1, largest=False).indices
        row = torch.arange(x.shape[0], device=x.device)[:, None, None]
        around = points[row, index]
        center = points[:, :, None].expand_as(around)
        edges = torch.cat([around - center, center], dim=-1).permute(0, 3, 1, 2)
        return self.layers(edges).amax(dim=-1)


class Cloud(nn.Module):
    def __init__(self, width, near, classes):
        super().__init__()
        widths = [width, width, 2 * width]
        self.edges = nn.ModuleList(Edges(i, o, near) for i, o in zip([3, *widths], widths))
        self.join = nn.Conv1d(4 * width, 12 * width, 1)
        self.head = nn.Sequential(
            nn.Linear(24 * width, 256), nn.LeakyReLU(0.2), nn.Dropout(0.4), nn.Linear(256, classes)
        )

    def forward(self, x):
        seen = []
        for edge in self.edges:
            x = edge(x)
            seen.append(x)
        x = self.join(torch.cat(seen, dim=1))
        return self.head(torch.cat([x.amax(dim=-1), x.mean(dim=-1)], dim=1))


def workload(batch=90, points=3000, width=48, near=18, classes=40):
    clouds = torch.randn(batch, 3, points)
    labels = torch.randint(0, classes, (batch,))
    return {
        "model": Cloud(width, near, classes),
        "batch": lambda: (clouds, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
