"""Workspaces of convolutions before Hopper, for when cuDNN cannot be asked.

Read off cuDNN's own answers about such cards (9.8 and newer can be asked), and held against published
runs of an RTX 3060 with cuDNN 9.1. These show that 1 x 1 filters run as matrix products there: the weight's
gradient is kept for each image, 1.6 MB an image in the last layer of MobileNetV2.
"""

from __future__ import annotations

from math import prod
from typing import Any

from . import choices

# The first with TF32: float32 convolutions run on tensor cores, which read pixel by pixel.
_FIRST_WITH_TF32 = 80
# Tensors are copied with their channels filled up to this many bytes.
_STEP = 16
# Fewer input channels than this stay where they are.
_FEW_CHANNELS = 8


def usual(problem: Any, which: str, capability: int) -> int:
    x, y = (_padded(shape, problem) for shape in (problem.x, problem.y))
    wide = problem.dtype.itemsize >= 4
    if wide and capability < _FIRST_WITH_TF32:
        return 0
    if problem.channels_last:
        # Each channel for itself: every one of them is filled up.
        apart = problem.groups > 1 and problem.groups == problem.x[1]
        return x + y if apart and wide and which == "forward" else 0
    if choices.is_product(problem) and wide and prod(problem.y[2:]) > 1:
        return choices.product(problem, which)
    if all(k == 1 for k in problem.w[2:]) or problem.x[1] < _FEW_CHANNELS:
        return 0
    if which == "grad_weight":
        return x + y
    if which == "forward":
        return x
    return 0 if wide else x + y


def _padded(shape: Any, problem: Any) -> int:
    """Bytes of a copy in which the channels of each group fill whole steps."""
    size = problem.dtype.itemsize
    step = max(1, _STEP // size)
    in_group = -(-shape[1] // problem.groups)
    channels = -(-in_group // step) * step * problem.groups
    return prod([shape[0], channels, *shape[2:]]) * size
