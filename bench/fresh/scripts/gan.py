"""The generator's half of a GAN: noise to images, judged by a discriminator that is trained, too."""

import torch
from torch import nn


class Gan(nn.Module):
    def __init__(self, width, noise):
        super().__init__()
        sizes = [8 * width, 4 * width, 2 * width, width]
        grow = [nn.ConvTranspose2d(noise, sizes[0], 4), nn.BatchNorm2d(sizes[0]), nn.ReLU(True)]
        for i, o in zip(sizes, sizes[1:]):
            grow += [nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU(True)]
        self.generator = nn.Sequential(*grow, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        judge = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True)]
        for i, o in zip(sizes[::-1], sizes[-2::-1]):
            judge += [nn.Conv2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.LeakyReLU(0.2, True)]
        self.discriminator = nn.Sequential(*judge, nn.Conv2d(sizes[0], 1, 4))

    def forward(self, noise):
        return self.discriminator(self.generator(noise)).flatten()


def workload(batch=96, width=72, noise=100):
    given = torch.randn(batch, noise, 1, 1)
    truth = torch.ones(batch)
    return {
        "model": Gan(width, noise),
        "batch": (given, truth),
        "loss": lambda model, given: nn.functional.binary_cross_entropy_with_logits(
            model(given[0]), given[1]
        ),
    }
