"""Kernels of torchvision that detectors use."""

from __future__ import annotations

from typing import Any

import torch

from .. import small_values
from ..choices import likely_values
from .registry import Launch, rule
from .sorting import sort_scratch

_INDEX = 8
# Boxes that are held against each other at a time: one bit for each of them.
_BLOCK = 64


def kept_boxes(func: Any, args: tuple, kwargs: dict) -> Any:
    """How many boxes overlap no better one depends on their values; the most there can be where none are likely."""
    likely = likely_values.kept_boxes(func, *args)
    count = args[0].shape[0] if likely is None else len(likely)
    places = torch.empty(count, dtype=torch.int64, device="meta")
    if likely is not None:
        small_values.remember(places, likely, sure=False)
    return places


@rule("torchvision.nms")
def nms(launch: Launch) -> None:
    boxes, scores = launch.args[:2]
    count = boxes.shape[0]
    if count == 0:
        return
    held = [launch.take(scores.numel() * scores.element_size()), launch.take(count * _INDEX)]
    launch.scratch(sort_scratch(count, key=scores.element_size()))
    held.append(launch.take(boxes.numel() * boxes.element_size()))
    held.append(launch.take(count * -(-count // _BLOCK) * _INDEX))
    held.append(launch.take(count * _INDEX))
    launch.place_all()
    launch.give(*reversed(held))
