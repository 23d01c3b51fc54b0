"""Reading and writing by tensors of indices."""

from __future__ import annotations

from typing import Any

import torch

from ..small_values import marked
from .registry import Launch, rule
from .sorting import sort_scratch

_INDEX = 8


@rule("aten.index.Tensor")
def index(launch: Launch) -> None:
    """A mask is turned into the places it marks first."""
    places = [_places(launch, i) for i in launch.args[1] if i is not None and _is_mask(i)]
    copies = _expanded_copies(launch, launch.args[1])
    launch.place_all()
    launch.give(*reversed(copies), *places)


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
        launch.give(*reversed(_expanded_copies(launch, indices)))
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


def _expanded_copies(launch: Launch, indices: list[Any]) -> list[int]:
    """Several indices are read with one step: where they lie differently, all are laid out in full."""
    indices = [i for i in indices if i is not None]
    if len(indices) < 2 or any(map(_is_mask, indices)):
        return []
    shape = _broadcast(indices)
    expanded = [i.expand(shape) for i in indices]
    if all(i.stride() == expanded[0].stride() for i in expanded):
        return []
    return [launch.take(i.numel() * i.element_size()) for i in expanded if not i.is_contiguous()]
