"""A U-Net for segmentation: convolutions down, transposed convolutions up, skips between them."""

import torch
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        widths = [width * 2**level for level in range(4)]
        self.down = nn.ModuleList(block(i, o) for i, o in zip([3, *widths], widths))
        self.middle = block(widths[-1], 2 * widths[-1])
        self.grow = nn.ModuleList(
            nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths)
        )
        self.up = nn.ModuleList(block(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for grow, layer in zip(self.grow, self.up):
            x = layer(torch.cat([grow(x), kept.pop()], dim=1))
        return self.head(x)


def workload(batch=8, image=256, width=64, classes=21):
    model = UNet(width, classes)
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(0, classes, (batch, image, image))
    return {
        "model": model,
        "batch": (images, labels),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0]), given[1]),
    }
