"""Values that are put into order or chosen: sort, topk, and the drawing of samples."""

from __future__ import annotations

from typing import Any

from .registry import Launch, rule
from .sorting import scan_scratch, sort_rows_scratch, sort_scratch

_INDEX = 8
# Rows of up to so many values are sorted where they lie.
_SORTED_IN_PLACE = 4096
# Few rows are sorted together, as values with the numbers of their rows; long ones each for itself.
_SORTED_TOGETHER = 128
_SORTED_ALONE = 1_000_000
_LARGEST_SORT = 2**31 - 1
# From so many values a row on, several blocks of threads share a row: by the number of rows.
_SHARED_ROWS = (
    (20, 20_000),
    (40, 10_000),
    (80, 8_000),
    (199, 5_000),
    (799, 3_000),
    (4_000, 800),
)
_SHARED_OTHERWISE = 400
_THREADS = 256
_DIGITS = 256
# Blocks that a multiprocessor runs at once: its registers divided by those of a block.
_BLOCKS_AT_ONCE = 65_536 // (40 * _THREADS)
_MIN_ITEMS, _MAX_ITEMS = 4, 64


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


@rule("aten.topk")
def topk(launch: Launch) -> None:
    launch.place_all()
    source, dim = launch.args[0], launch.argument(2, "dim", -1)
    if source.dim() == 0 or source.numel() == 0:
        return
    size, length = source.element_size(), source.shape[dim]
    rows = source.numel() // length
    copy = 0 if source.is_contiguous() else launch.take(source.numel() * size)
    if length >= _shared_from(rows):
        blocks = rows * _blocks_of_row(launch.gpu, rows, length)
        sizes = (size, 8, 8, blocks // rows * _DIGITS * 2, _DIGITS * 4)
        held = [launch.take(rows * of_row) for of_row in sizes]
        held += [launch.take(blocks * 4), launch.take(blocks * 4)]
        launch.scratch(scan_scratch(blocks))
        launch.scratch(scan_scratch(blocks))
        launch.give(*reversed(held))
    launch.give(copy)


def _shared_from(rows: int) -> int:
    return next((least for most, least in _SHARED_ROWS if rows <= most), _SHARED_OTHERWISE)


def _blocks_of_row(gpu: Any, rows: int, length: int) -> int:
    at_once = gpu.multiprocessors * _BLOCKS_AT_ONCE * _THREADS
    items = max(_MIN_ITEMS, min(-(-rows * length // at_once), _MAX_ITEMS))
    return -(-length // (items * _THREADS))


@rule("aten.multinomial")
def multinomial(launch: Launch) -> None:
    """One sample, or several that differ, are the largest of the chances divided by random numbers."""
    launch.place_all()
    chances = launch.args[0]
    if launch.argument(1, "num_samples") == 1 or not launch.argument(2, "replacement", False):
        launch.scratch(chances.numel() * chances.element_size())
