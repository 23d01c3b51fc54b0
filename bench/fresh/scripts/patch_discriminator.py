"""The discriminator of an image-to-image GAN: spectral norms, two scales, hinge loss on patches."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


def scale(inputs, width):
    layers = [nn.Conv2d(inputs, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2, True)]
    for stride in (2, 2, 1):
        wider = min(2 * width, 512)
        layers += [
            spectral_norm(nn.Conv2d(width, wider, 4, stride=stride, padding=1)),
            nn.InstanceNorm2d(wider),
            nn.LeakyReLU(0.2, True),
        ]
        width = wider
    return nn.Sequential(*layers, nn.Conv2d(width, 1, 4, padding=1))


class Discriminator(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.scales = nn.ModuleList(scale(channels, width) for _ in range(2))
        self.shrink = nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)

    def forward(self, pair):
        answers = []
        for one in self.scales:
            answers.append(one(pair))
            pair = self.shrink(pair)
        return answers


def workload(batch=18, image=256, width=64):
    source = torch.randn(batch, 3, image, image)
    real = torch.randn(batch, 3, image, image)
    fake = torch.randn(batch, 3, image, image)

    def loss(model, given):
        source, real, fake = given
        of_real = model(torch.cat([source, real], dim=1))
        of_fake = model(torch.cat([source, fake], dim=1))
        total = 0
        for good, bad in zip(of_real, of_fake):
            total = total + torch.relu(1 - good).mean() + torch.relu(1 + bad).mean()
        return total

    return {"model": Discriminator(6, width), "batch": (source, real, fake), "loss": loss}
