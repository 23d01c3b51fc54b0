"""A fully convolutional segmenter of torchvision on ResNet-50, with its auxiliary head in the loss."""

import torch
from torch import nn
from torchvision.models.segmentation import fcn_resnet50


def workload(batch=6, image=256, classes=21):
    model = fcn_resnet50(weights=None, weights_backbone=None, num_classes=classes, aux_loss=True)

    def make():
        return torch.randn(batch, 3, image, image), torch.randint(0, classes, (batch, image, image))

    def loss(model, given):
        images, masks = given
        out = model(images)
        main = nn.functional.cross_entropy(out["out"], masks, ignore_index=255)
        aux = nn.functional.cross_entropy(out["aux"], masks, ignore_index=255)
        return main + 0.5 * aux

    return {"model": model, "batch": make, "loss": loss}
