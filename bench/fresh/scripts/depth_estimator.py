"""Depth from one picture: a ResNet-18 as encoder, a decoder that joins its stages on the way up."""

import torch
import torchvision
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3), nn.ELU(inplace=True))


class Depth(nn.Module):
    def __init__(self, widths=(256, 128, 64, 32, 16)):
        super().__init__()
        net = torchvision.models.resnet18(weights=None)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu)
        self.pool = net.maxpool
        self.stages = nn.ModuleList([net.layer1, net.layer2, net.layer3, net.layer4])
        skips = (256, 128, 64, 64, 0)
        inputs = (512, *widths[:-1])
        self.before = nn.ModuleList(block(i, o) for i, o in zip(inputs, widths))
        self.after = nn.ModuleList(block(o + s, o) for o, s in zip(widths, skips))
        self.out = block(widths[-1], 1)

    def forward(self, images):
        x = self.stem(images)
        seen = [x]
        x = self.pool(x)
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        seen.pop()
        for before, after in zip(self.before, self.after):
            x = nn.functional.interpolate(before(x), scale_factor=2, mode="nearest")
            if seen:
                x = torch.cat([x, seen.pop()], dim=1)
            x = after(x)
        return torch.sigmoid(self.out(x))


def workload(batch=40, image=320):
    return {
        "model": Depth(),
        "batch": (torch.rand(batch, 3, image, image), torch.rand(batch, 1, image, image)),
        "loss": lambda model, given: (model(given[0]) - given[1]).abs().mean(),
    }
