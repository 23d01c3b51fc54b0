"""LR-ASPP of torchvision: masks from two resolutions of MobileNetV3."""

import torch
from torch import nn
from torchvision.models.segmentation import lraspp_mobilenet_v3_large


def workload(batch=60, image=448, classes=21):
    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=classes)

    def make():
        return torch.rand(batch, 3, image, image)

    def loss(model, images):
        scores = model(images)["out"]
        return nn.functional.cross_entropy(scores, torch.zeros_like(scores[:, 0]).long())

    return {"model": model, "batch": make, "loss": loss}
