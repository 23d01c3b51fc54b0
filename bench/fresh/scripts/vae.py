"""A convolutional variational autoencoder: encode, sample, decode; reconstruction and divergence."""

import torch
from torch import nn


class Vae(nn.Module):
    def __init__(self, width, latent, image):
        super().__init__()
        widths = [3, width, 2 * width, 4 * width]
        down = []
        for i, o in zip(widths, widths[1:]):
            down += [nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.LeakyReLU()]
        self.encoder = nn.Sequential(*down, nn.Flatten())
        self.shape = (4 * width, image // 8, image // 8)
        flat = 4 * width * (image // 8) ** 2
        self.mean = nn.Linear(flat, latent)
        self.spread = nn.Linear(flat, latent)
        self.enter = nn.Linear(latent, flat)
        up = []
        for i, o in zip(widths[:1:-1], widths[-2:0:-1]):
            up += [
                nn.ConvTranspose2d(i, o, 3, stride=2, padding=1, output_padding=1),
                nn.BatchNorm2d(o),
                nn.LeakyReLU(),
            ]
        last = nn.ConvTranspose2d(width, 3, 3, stride=2, padding=1, output_padding=1)
        self.decoder = nn.Sequential(*up, last, nn.Sigmoid())

    def forward(self, x):
        code = self.encoder(x)
        mean, spread = self.mean(code), self.spread(code)
        latent = mean + torch.randn_like(spread) * torch.exp(0.5 * spread)
        return self.decoder(self.enter(latent).view(-1, *self.shape)), mean, spread


def workload(batch=64, image=128, width=48, latent=256):
    images = torch.rand(batch, 3, image, image)

    def loss(model, given):
        made, mean, spread = model(given)
        divergence = -0.5 * torch.mean(1 + spread - mean.pow(2) - spread.exp())
        return nn.functional.mse_loss(made, given) + 0.01 * divergence

    return {"model": Vae(width, latent, image), "batch": images, "loss": loss}
