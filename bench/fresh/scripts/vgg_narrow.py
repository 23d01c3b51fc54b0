"""A VGG with half of the usual channels and its own head."""

import torch
from torch import nn

WIDTHS = (
    32,
    64,
    "pool",
    64,
    128,
    "pool",
    128,
    256,
    256,
    "pool",
    256,
    384,
    384,
    "pool",
    384,
    384,
    "pool",
)


def workload(batch=32, seq=224):
    layers, inputs = [], 3
    for width in WIDTHS:
        if width == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
        inputs = width
    head = [
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(inputs * 49, 2048),
        nn.ReLU(inplace=True),
    ]
    model = nn.Sequential(*layers, *head, nn.Dropout(), nn.Linear(2048, 1000))

    def loss(model, given):
        images, labels = given
        return nn.functional.cross_entropy(model(images), labels)

    return {
        "model": model,
        "batch": lambda: (torch.randn(batch, 3, seq, seq), torch.randint(0, 1000, (batch,))),
        "loss": loss,
    }
