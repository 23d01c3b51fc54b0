"""DeepLabV3 of torchvision on MobileNetV3: dilated convolutions over a light backbone, one mask."""

import torch
from torch import nn
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large


def workload(batch=14, image=320, classes=12):
    model = deeplabv3_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=classes, aux_loss=False
    )
    images = torch.randn(batch, 3, image, image)
    masks = torch.randint(0, classes, (batch, image, image))
    return {
        "model": model,
        "batch": (images, masks),
        "loss": lambda model, given: nn.functional.cross_entropy(model(given[0])["out"], given[1]),
    }
