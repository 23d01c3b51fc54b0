"""Spoken commands from the waveform: a wide first filter, then depthwise separable residual blocks."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, kernel):
        super().__init__()
        layers = []
        for index in range(3):
            width = inputs if index == 0 else outputs
            layers += [
                nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width, bias=False),
                nn.Conv1d(width, outputs, 1, bias=False),
                nn.BatchNorm1d(outputs),
            ]
            layers += [nn.ReLU(), nn.Dropout(0.1)] if index < 2 else []
        self.layers = nn.Sequential(*layers)
        self.around = nn.Sequential(nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.around(x))


class Spotter(nn.Module):
    def __init__(self, commands, width):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv1d(1, width, 80, stride=4, padding=38), nn.BatchNorm1d(width), nn.ReLU()
        )
        self.blocks = nn.ModuleList(
            Block(i, o, k)
            for i, o, k in ((width, 128, 13), (128, 128, 17), (128, 192, 21), (192, 256, 25))
        )
        self.out = nn.Linear(256, commands)

    def forward(self, waves):
        x = nn.functional.max_pool1d(self.first(waves.unsqueeze(1)), 2)
        for block in self.blocks:
            x = nn.functional.avg_pool1d(block(x), 2)
        return self.out(x.mean(dim=-1))


def workload(batch=48, samples=16000, commands=35, width=96):
    def given():
        return torch.randn(batch, samples), torch.randint(0, commands, (batch,))

    return {
        "model": Spotter(commands, width),
        "batch": given,
        "loss": lambda model, made: nn.functional.cross_entropy(model(made[0]), made[1]),
    }
