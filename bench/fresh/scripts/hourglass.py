"""Stacked hourglasses for the joints of a body: residuals down, sums on the way up, a map for each."""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        between = outputs // 2
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, between, 1),
            nn.BatchNorm2d(between),
            nn.ReLU(),
            nn.Conv2d(between, between, 3, padding=1),
            nn.BatchNorm2d(between),
            nn.ReLU(),
            nn.Conv2d(between, outputs, 1),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.layers(x) + self.skip(x)


class Hourglass(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.beside = Residual(width, width)
        self.down = Residual(width, width)
        self.inner = Hourglass(depth - 1, width) if depth > 1 else Residual(width, width)
        self.up = Residual(width, width)

    def forward(self, x):
        low = self.up(self.inner(self.down(nn.functional.max_pool2d(x, 2))))
        return self.beside(x) + nn.functional.interpolate(low, scale_factor=2)


class Joints(nn.Module):
    def __init__(self, stacks, width, joints):
        super().__init__()
        self.enter = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            Residual(64, 128),
            nn.MaxPool2d(2),
            Residual(128, width),
        )
        self.glasses = nn.ModuleList(Hourglass(4, width) for _ in range(stacks))
        self.features = nn.ModuleList(Residual(width, width) for _ in range(stacks))
        self.maps = nn.ModuleList(nn.Conv2d(width, joints, 1) for _ in range(stacks))
        self.back = nn.ModuleList(nn.Conv2d(joints, width, 1) for _ in range(stacks - 1))

    def forward(self, images):
        x, answers = self.enter(images), []
        for index, glass in enumerate(self.glasses):
            seen = self.features[index](glass(x))
            answers.append(self.maps[index](seen))
            if index < len(self.back):
                x = x + seen + self.back[index](answers[-1])
        return torch.stack(answers, dim=1)


def workload(batch=64, image=256, stacks=4, width=256, joints=17):
    images = torch.rand(batch, 3, image, image)
    maps = torch.rand(batch, joints, image // 4, image // 4)
    return {
        "model": Joints(stacks, width, joints),
        "batch": (images, maps),
        "loss": lambda model, given: (model(given[0]) - given[1][:, None]).square().mean(),
    }
