"""A torchvision classifier by name, with a batch of images and cross entropy."""

from __future__ import annotations

import torch

from ...failure import MISSING_PACKAGE, Failure
from ..workload import Settings, Workload

_USUAL_SIZE = 224


def load(name: str, settings: Settings) -> Workload:
    try:
        import torchvision
    except ImportError as error:
        raise Failure(
            "torchvision-missing",
            "torchvision is not installed for this Python",
            "pip install torchvision, or name another Python",
            status=MISSING_PACKAGE,
        ) from error
    if name not in torchvision.models.list_models():
        raise Failure(
            "unknown-vision-model",
            "torchvision has no model %r" % name,
            "see torchvision.models.list_models()",
        )
    before = torch.get_default_dtype()
    torch.set_default_dtype(settings.dtype)
    try:
        with torch.device("meta"):
            model = torchvision.models.get_model(name, weights=None)
    finally:
        torch.set_default_dtype(before)
    model.train(settings.training)
    size = settings.image or settings.seq or _USUAL_SIZE

    def batch():
        with torch.device("meta"):
            images = torch.randn(settings.batch, 3, size, size, dtype=settings.dtype)
            return images, torch.randint(0, 1000, (settings.batch,))

    def loss(out, given):
        logits = out.logits if hasattr(out, "logits") else out
        return torch.nn.functional.cross_entropy(logits, given[1])

    return Workload(model, batch, lambda model, given: model(given[0]), loss)
