"""Kernels that read, write, order and choose by values: indices, sorts, draws, detected boxes."""

from __future__ import annotations

from typing import Any

import torch

from .. import small_values
from ..assumed import likely_values
from ..small_values import marked
from .registry import Launch, rule
from .sorting import SORTED_IN_PLACE, sort_rows, sort_scratch

# Values that are put into order, and samples that are drawn.

_INDEX = 8
_LARGEST_SORT = 2**31 - 1


@rule("aten.sort")
def sort(launch: Launch) -> None:
    launch.place_all()
    source = launch.args[0]
    if source.dim() == 0 or source.numel() == 0:
        return
    dim = launch.argument(1, "dim", -1)
    length, size = source.shape[dim], source.element_size()
    if length <= SORTED_IN_PLACE:
        launch.scratch(length * _INDEX)
        return
    held = []
    if source.stride(dim) != 1 or not _lies_in_one_run(source):
        held.append(launch.take(source.numel() * size))
    if launch.outputs[0].stride(dim) != 1:
        held += [launch.take(source.numel() * size), launch.take(source.numel() * _INDEX)]
    rows = min(source.numel(), _LARGEST_SORT) // length
    sort_rows(launch, rows, length, size)
    launch.give(*reversed(held))


def _lies_in_one_run(tensor: Any) -> bool:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return last + 1 == tensor.numel()


@rule("aten._unique2")
def unique(launch: Launch) -> None:
    """All values are put into order first."""
    source = launch.args[0]
    count, size = source.numel(), source.element_size()
    ordered = launch.take(count * size)
    launch.scratch(sort_scratch(count, key=size, value=0, bits=8 * size))
    launch.place_all()
    launch.give(ordered)


@rule("aten.multinomial")
def multinomial(launch: Launch) -> None:
    """One sample, or several that differ, are the largest of the chances divided by random numbers."""
    launch.place_all()
    chances = launch.args[0]
    if launch.argument(1, "num_samples") == 1 or not launch.argument(2, "replacement", False):
        launch.scratch(chances.numel() * chances.element_size())


# Kernels of torchvision that detectors use.

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
    held = [
        launch.take(scores.numel() * scores.element_size()),
        launch.take(count * _INDEX),
    ]
    launch.scratch(sort_scratch(count, key=scores.element_size()))
    held.append(launch.take(boxes.numel() * boxes.element_size()))
    held.append(launch.take(count * -(-count // _BLOCK) * _INDEX))
    held.append(launch.take(count * _INDEX))
    launch.place_all()
    launch.give(*reversed(held))


# Reading and writing by tensors of indices, and by patches (`unfold` and `fold`).


@rule("aten.index.Tensor")
def index(launch: Launch) -> None:
    """A mask is turned into the places it marks first."""
    places = [_places(launch, i) for i in launch.args[1] if i is not None and _is_mask(i)]
    widened, copies = _alike(launch, launch.args[1])
    launch.place_all()
    launch.give(*reversed(copies), *widened, *places)


def _is_mask(index: Any) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _places(launch: Launch, mask: Any) -> int:
    count = launch.take(4)
    launch.scratch(1)
    places = launch.take(marked(mask) * mask.dim() * _INDEX)
    launch.scratch(1023)
    launch.give(count)
    return places


@rule("aten.index_put", "aten.index_put_", "aten._index_put_impl_")
def index_put(launch: Launch) -> None:
    """Adding to places that may repeat sorts them first; plain writing does not."""
    launch.place_all()
    target, indices, values = launch.args[:3]
    indices = [i for i in indices if i is not None]
    if not indices or indices[0].dtype == torch.bool:
        return
    if not launch.argument(3, "accumulate", False):
        widened, copies = _alike(launch, indices)
        launch.give(*copies, *widened)
        return
    count = _broadcast(indices).numel()
    linear = 0
    for _ in indices:
        wrapped = launch.take(count * _INDEX)
        scaled = launch.take(count * _INDEX)
        launch.give(wrapped)
        if linear:
            # It is added to the first one, in place.
            launch.give(scaled)
        else:
            linear = scaled
    held = [linear]
    if not values.is_contiguous():
        held.append(launch.take(values.numel() * values.element_size()))
    rows = 1
    for position, one in enumerate(launch.args[1]):
        if one is not None:
            rows *= target.shape[position]
    held += [launch.take(count * _INDEX), launch.take(count * _INDEX)]
    launch.scratch(count * _INDEX, sort_scratch(count, bits=max(1, (rows - 1).bit_length())))
    launch.give(*reversed(held))


def _broadcast(indices: list[Any]) -> torch.Size:
    return torch.broadcast_shapes(*(i.shape for i in indices))


def _alike(launch: Launch, indices: list[Any]) -> tuple[list[int], list[int]]:
    """Several indices are read in one type and with one step; what was asked for to make them so.

    Shorter ones beside those of 8 bytes are widened. Where they lie differently then, all are laid out in full.
    """
    indices = [i for i in indices if i is not None]
    if len(indices) < 2 or any(map(_is_mask, indices)):
        return [], []
    shape = _broadcast(indices)
    mixed = len({i.dtype for i in indices}) > 1
    widened, expanded = [], []
    for one in indices:
        if mixed and one.dtype != torch.int64:
            widened.append(launch.take(shape.numel() * _INDEX))
            expanded.append(torch.empty(shape, dtype=torch.int64, device="meta"))
        else:
            expanded.append(one.expand(shape))
    if all(i.stride() == expanded[0].stride() for i in expanded):
        return widened, []
    spread = [i for i in expanded if not i.is_contiguous()]
    return widened, [launch.take(i.numel() * i.element_size()) for i in spread]


@rule("aten.im2col", "aten.col2im")
def patches(launch: Launch) -> None:
    """A result begins as large as its source: it moves where it must grow, and stays too large where not."""
    source, result = launch.args[0], launch.outputs[0]
    size = source.numel() * source.element_size()
    if result.numel() <= source.numel():
        launch.place(0, size)
        launch.scratch(0 if source.is_contiguous() else size)
        return
    before = launch.take(size)
    copy = launch.take(0 if source.is_contiguous() else size)
    launch.place(0)
    launch.give(before, copy)
