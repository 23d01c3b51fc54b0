"""A 3D U-Net for scans: strided convolutions down, trilinear growth, losses at two resolutions."""

import torch
from torch import nn


def block(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(outputs, outputs, 3, padding=1, bias=False),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class VolumeUNet(nn.Module):
    def __init__(self, channels, widths, classes):
        super().__init__()
        strides = [1] + [2] * (len(widths) - 1)
        ins = [channels, *widths]
        self.down = nn.ModuleList(block(i, o, s) for i, o, s in zip(ins, widths, strides))
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(block(i + o, o) for i, o in pairs)
        self.out = nn.ModuleList(nn.Conv3d(o, classes, 1) for _, o in pairs[-2:])

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        skips.pop()
        answers = []
        for index, up in enumerate(self.up):
            x = nn.functional.interpolate(x, scale_factor=2, mode="trilinear", align_corners=False)
            x = up(torch.cat([x, skips.pop()], dim=1))
            level = index - len(self.up) + len(self.out)
            if level >= 0:
                answers.append(self.out[level](x))
        return answers[::-1]


def workload(batch=2, side=96, channels=2, classes=4):
    scans = torch.randn(batch, channels, side, side, side)
    labels = torch.randint(0, classes, (batch, side, side, side))

    def loss(model, given):
        fine, coarse = model(given[0])
        small = given[1][:, ::2, ::2, ::2]
        total = nn.functional.cross_entropy(fine, given[1])
        return total + 0.5 * nn.functional.cross_entropy(coarse, small)

    return {
        "model": VolumeUNet(channels, [28, 56, 112, 224, 280], classes),
        "batch": (scans, labels),
        "loss": loss,
    }
