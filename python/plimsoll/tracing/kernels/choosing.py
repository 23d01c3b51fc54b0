"""Values that are put into order, and samples that are drawn."""

from __future__ import annotations

from typing import Any

from .registry import Launch, rule
from .sorting import sort_rows_scratch, sort_scratch

_INDEX = 8
# Rows of up to so many values are sorted where they lie.
_SORTED_IN_PLACE = 4096
# Few rows are sorted together, as values with the numbers of their rows; long ones each for itself.
_SORTED_TOGETHER = 128
_SORTED_ALONE = 1_000_000
_LARGEST_SORT = 2**31 - 1


@rule("aten.sort")
def sort(launch: Launch) -> None:
    launch.place_all()
    source = launch.args[0]
    if source.dim() == 0 or source.numel() == 0:
        return
    dim = launch.argument(1, "dim", -1)
    length, size = source.shape[dim], source.element_size()
    if length <= _SORTED_IN_PLACE:
        launch.scratch(length * _INDEX)
        return
    held = []
    if source.stride(dim) != 1 or not _lies_in_one_run(source):
        held.append(launch.take(source.numel() * size))
    if launch.outputs[0].stride(dim) != 1:
        held += [launch.take(source.numel() * size), launch.take(source.numel() * _INDEX)]
    rows = min(source.numel(), _LARGEST_SORT) // length
    _sort_rows(launch, rows, length, size)
    launch.give(*reversed(held))


def _lies_in_one_run(tensor: Any) -> bool:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return last + 1 == tensor.numel()


def _sort_rows(launch: Launch, rows: int, length: int, size: int) -> None:
    count = rows * length
    if rows == 1 or length >= _SORTED_ALONE:
        launch.scratch(length * _INDEX, sort_scratch(length, key=size, bits=8 * size))
    elif rows < _SORTED_TOGETHER:
        places = [launch.take(count * _INDEX), launch.take(count * _INDEX)]
        launch.scratch(count * size, sort_scratch(count, key=size, bits=8 * size))
        launch.scratch(sort_scratch(count, value=0, bits=(rows - 1).bit_length()))
        launch.give(*reversed(places))
    else:
        launch.scratch(count * _INDEX, sort_rows_scratch(count, size))


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
