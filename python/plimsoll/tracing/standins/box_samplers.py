"""Detectors of torchvision learn from so many boxes of a picture, and from so many at most that hold something."""

from __future__ import annotations

from typing import Any

from .imports import when_imported
from .patches import Patches


def install(patches: Patches, observer: Any) -> None:
    when_imported(
        "torchvision.models.detection._utils", lambda module: _sampler(patches, observer, module)
    )


def _sampler(patches: Patches, observer: Any, module: Any) -> None:
    sampler = getattr(module, "BalancedPositiveNegativeSampler", None)
    if sampler is None:
        return
    sample = sampler.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        size = self.batch_size_per_image
        observer.chosen.samples[size] = int(size * self.positive_fraction)
        return sample(self, *args, **kwargs)

    patches.set(sampler, "__call__", __call__)
