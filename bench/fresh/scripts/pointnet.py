"""PointNet for parts of shapes: points turned by learned matrices, one maximum for the whole cloud."""

import torch
from torch import nn


def shared(*widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class Turn(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.points = shared(size, 64, 128, 1024)
        self.matrix = nn.Sequential(
            nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, size * size)
        )

    def forward(self, x):
        found = self.matrix(self.points(x).max(dim=2).values).view(-1, self.size, self.size)
        return found + torch.eye(self.size, device=x.device)


class PointNet(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.turn, self.turn_features = Turn(3), Turn(128)
        self.near = shared(3, 64, 128, 128)
        self.far = shared(128, 512, 2048)
        self.parts = nn.Sequential(shared(2048 + 128, 512, 256, 128), nn.Conv1d(128, parts, 1))

    def forward(self, x):
        x = torch.bmm(self.turn(x), x)
        near = self.near(x)
        turn = self.turn_features(near)
        near = torch.bmm(turn, near)
        whole = self.far(near).max(dim=2, keepdim=True).values.expand(-1, -1, x.shape[2])
        return self.parts(torch.cat([whole, near], dim=1)), turn


def workload(batch=40, points=2048, parts=50):
    clouds = torch.randn(batch, 3, points)
    labels = torch.randint(0, parts, (batch, points))

    def loss(model, given):
        scores, turn = model(given[0])
        left = torch.eye(128, device=turn.device) - torch.bmm(turn, turn.transpose(1, 2))
        return nn.functional.cross_entropy(scores, given[1]) + 0.001 * left.norm(dim=(1, 2)).mean()

    return {"model": PointNet(parts), "batch": (clouds, labels), "loss": loss}
