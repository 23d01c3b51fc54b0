"""The generator of a style-based GAN: weights scaled by a style for each image, noise at every layer."""

import torch
from torch import nn


class Modulated(nn.Module):
    def __init__(self, inputs, outputs, style, grow):
        super().__init__()
        self.grow = grow
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.style = nn.Linear(style, inputs)
        self.noise = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, style):
        b, c, _, _ = x.shape
        weight = self.weight * (self.style(style) + 1)[:, None, :, None, None]
        weight = weight * weight.square().sum(dim=(2, 3, 4), keepdim=True).add(1e-8).rsqrt()
        if self.grow:
            x = nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        h, w = x.shape[2:]
        x = nn.functional.conv2d(
            x.reshape(1, b * c, h, w), weight.flatten(0, 1), padding=1, groups=b
        ).view(b, -1, h, w)
        x = x + self.noise * torch.randn(b, 1, h, w, device=x.device)
        return nn.functional.leaky_relu(x + self.bias[:, None, None], 0.2)


class Generator(nn.Module):
    def __init__(self, style, widths):
        super().__init__()
        layers = []
        for _ in range(6):
            layers += [nn.Linear(style, style), nn.LeakyReLU(0.2)]
        self.style = nn.Sequential(*layers)
        self.start = nn.Parameter(torch.randn(1, widths[0], 4, 4))
        self.layers = nn.ModuleList(
            Modulated(i, o, style, grow)
            for before, after in zip(widths, widths[1:])
            for i, o, grow in ((before, after, True), (after, after, False))
        )
        self.colors = nn.ModuleList(nn.Conv2d(o, 3, 1) for o in widths[1:])

    def forward(self, code):
        style = self.style(code * code.square().mean(dim=1, keepdim=True).add(1e-8).rsqrt())
        x, image = self.start.expand(len(code), -1, -1, -1), None
        for index, color in enumerate(self.colors):
            x = self.layers[2 * index + 1](self.layers[2 * index](x, style), style)
            seen = color(x)
            if image is not None:
                seen = seen + nn.functional.interpolate(image, scale_factor=2)
            image = seen
        return image


def workload(batch=48, image=128, style=512):
    widths = [512, 512, 512, 256, 128, 64, 32][: image.bit_length() - 2]

    return {
        "model": Generator(style, widths),
        "batch": lambda: torch.randn(batch, style),
        "loss": lambda model, codes: nn.functional.softplus(-model(codes)).mean(),
    }
