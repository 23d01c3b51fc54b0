"""Values that are put into order, and samples that are drawn."""

from __future__ import annotations

from typing import Any

from .registry import Launch, rule
from .sorting import SORTED_IN_PLACE, sort_rows, sort_scratch

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
