"""A U-Net whose skips pass a gate of attention, with batch norm, pooling and a Dice loss."""

import torch
from torch import nn


def twice(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Gate(nn.Module):
    def __init__(self, channels, between):
        super().__init__()
        self.of_skip = nn.Sequential(nn.Conv2d(channels, between, 1), nn.BatchNorm2d(between))
        self.of_below = nn.Sequential(nn.Conv2d(channels, between, 1), nn.BatchNorm2d(between))
        self.weight = nn.Sequential(nn.Conv2d(between, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

    def forward(self, skip, below):
        return skip * self.weight(torch.relu(self.of_skip(skip) + self.of_below(below)))


class AttentionUNet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        widths = [width * 2**i for i in range(depth)]
        self.down = nn.ModuleList(twice(i, o) for i, o in zip([3, *widths], widths))
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in pairs)
        self.gates = nn.ModuleList(Gate(o, o // 2) for _, o in pairs)
        self.join = nn.ModuleList(twice(2 * o, o) for _, o in pairs)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, gate, join in zip(self.up, self.gates, self.join):
            x = up(x)
            x = join(torch.cat([gate(skips.pop(), x), x], dim=1))
        return self.out(x)


def workload(batch=9, image=224, width=48, depth=5, classes=4):
    images = torch.randn(batch, 3, image, image)
    masks = torch.randint(0, classes, (batch, image, image))

    def loss(model, given):
        scores = model(given[0])
        share = scores.softmax(dim=1)
        wanted = nn.functional.one_hot(given[1], classes).permute(0, 3, 1, 2).to(share.dtype)
        both = (share * wanted).sum(dim=(2, 3))
        dice = 1 - (2 * both + 1) / (share.sum(dim=(2, 3)) + wanted.sum(dim=(2, 3)) + 1)
        return dice.mean() + nn.functional.cross_entropy(scores, given[1])

    return {"model": AttentionUNet(width, depth, classes), "batch": (images, masks), "loss": loss}
