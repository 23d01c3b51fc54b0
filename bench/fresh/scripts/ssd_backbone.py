"""The backbone of torchvision's SSD300: VGG-16 with further layers down to one pixel, and its heads."""

import torch
from torch import nn
from torchvision.models.detection import ssd300_vgg16


class Scores(nn.Module):
    def __init__(self, classes):
        super().__init__()
        whole = ssd300_vgg16(weights=None, weights_backbone=None, num_classes=classes)
        self.backbone = whole.backbone
        self.head = whole.head

    def forward(self, images):
        return self.head(list(self.backbone(images).values()))


def workload(batch=44, image=300, classes=21):
    return {
        "model": Scores(classes),
        "batch": lambda: torch.rand(batch, 3, image, image),
        "loss": lambda model, images: model(images)["cls_logits"].square().mean(),
    }
