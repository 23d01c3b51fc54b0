"""The memory of sorts, what is built on them, and the largest values of rows."""

from __future__ import annotations

from ..gpu import Gpu
from .registry import Launch, rule

_INDEX = 8
# CUB rounds every part of its scratch up to this, and adds one less for alignment.
_CUB = 256
_DIGITS = 256
# Threads of a tile, and values of four bytes that each takes, by the size of the keys: without values beside
# them, with small ones, and with those of eight bytes.
_SORT_THREADS = 384
_SORT_ITEMS = {4: (18, 17, 29), 8: (30, 30, 24)}
_UNIQUE_TILE = 4608
_SCAN_TILE = 896
# Rows of up to so many values are sorted where they lie.
SORTED_IN_PLACE = 4096
# Few rows are sorted together, as values with the numbers of their rows; long ones each for itself.
_SORTED_TOGETHER = 128
_SORTED_ALONE = 1_000_000
# Up to this many tokens an embedding's gradient is summed without sorting.
_UNSORTED_TOKENS = 3072
_ROWS_PER_PARTIAL = 10
# Bags are summed, averaged, or give their largest value.
_LARGEST_OF_BAG = 2
# From so many values in a row on, by the number of rows, several blocks look for its largest.
_LONG_ROWS = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
_LONG_AMONG_MANY = 400
# Threads of a block, blocks at once on a multiprocessor, and how many values a thread takes.
_THREADS, _AT_ONCE = 256, 6
_MIN_VALUES, _MAX_VALUES = 4, 64
_SCAN_BY_KEY_TILE = 2048


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _round(size: int) -> int:
    return _ceil(size, _CUB) * _CUB


def sort_scratch(count: int, key: int = _INDEX, value: int = _INDEX, bits: int = 64) -> int:
    """CUB's radix sort: digit counts, one row per tile, and second copies where it takes several passes."""
    passes = max(1, _ceil(bits, 8))
    counts = passes * _DIGITS * 8 + _ceil(count, _sort_tile(key, value)) * _DIGITS * 4
    copies = _round(count * key) + _round(count * value) if passes > 1 else 0
    return copies + counts + _CUB + _CUB - 1


def _sort_tile(key: int, value: int) -> int:
    items = _SORT_ITEMS[8 if key == 8 else 4][0 if value == 0 else 1 + (value >= 8)]
    return _SORT_THREADS * (items * 4 // max(4, key, value))


def sort_rows_scratch(count: int, key: int, value: int = _INDEX) -> int:
    """CUB's sort of many rows at once: second copies of all."""
    return _round(count * key) + _round(count * value) + _CUB - 1


def scan_scratch(count: int, tile: int = _SCAN_TILE, value: int = _INDEX) -> int:
    """CUB's scan and unique: a value and a state as large for each tile, and for a warp more."""
    return _round((32 + _ceil(count, tile)) * 2 * value) + _CUB + _CUB - 1


@rule("aten.embedding_dense_backward")
def embedding_backward(launch: Launch) -> None:
    grad, indices, vocabulary = launch.args[:3]
    count = indices.numel()
    held = [
        launch.take(t.numel() * t.element_size()) for t in (indices, grad) if not t.is_contiguous()
    ]
    if count <= _UNSORTED_TOKENS:
        launch.place_all()
    else:
        _summed_by_row(launch, count, vocabulary)
    launch.give(*reversed(held))


@rule("aten._embedding_bag")
def bags(launch: Launch) -> None:
    """How many each bag has, then the bag of each index, then the result."""
    for index in (2, 1, 0):
        launch.place(index)
    if launch.argument(4, "mode", 0) != _LARGEST_OF_BAG:
        # Which index gave the largest value is kept for that alone.
        launch.skip(3)


@rule("aten._embedding_bag_backward")
def bags_backward(launch: Launch) -> None:
    grad, indices, vocabulary, mode, sparse = (launch.args[place] for place in (0, 1, 6, 8, 9))
    if sparse or mode == _LARGEST_OF_BAG:
        launch.place_all()
        return
    copy = 0 if grad.is_contiguous() else launch.take(grad.numel() * grad.element_size())
    _summed_by_row(launch, indices.numel(), vocabulary)
    launch.give(copy)


def _summed_by_row(launch: Launch, count: int, vocabulary: int) -> None:
    """Indices are sorted, and what belongs to one row of the table is summed in parts."""
    grad = launch.args[0]
    held = [launch.take(count * _INDEX), launch.take(count * _INDEX)]
    launch.scratch(count * _INDEX, sort_scratch(count))
    launch.place_all()
    held += [launch.take(count * _INDEX), launch.take(_INDEX)]
    launch.scratch(count * _INDEX, scan_scratch(count, _UNIQUE_TILE))
    segments = min(count, vocabulary)
    held += [launch.take(segments * _INDEX), launch.take(segments * _INDEX)]
    launch.scratch(scan_scratch(segments))
    partials = count // _ROWS_PER_PARTIAL + segments
    held += [launch.take(_INDEX), launch.take(partials * _INDEX)]
    if _few_rows(launch.gpu, segments, partials, grad.shape[-1]):
        held.append(launch.take(partials * _INDEX))
        if grad.element_size() == 2:
            held.append(launch.take(vocabulary * grad.shape[-1] * 4))
    else:
        held.append(launch.take(partials * grad.shape[-1] * 4))
    launch.give(*reversed(held))


def _few_rows(gpu: Gpu, segments: int, partials: int, width: int) -> bool:
    """Whether the rows are so few that they are summed with atomic adds."""
    warped = _ceil(width, 32) * 32
    grid = _ceil(segments * warped, min(warped, 1024))
    return grid < gpu.multiprocessors * 4 and partials > grid * 4


def sort_rows(launch: Launch, rows: int, length: int, size: int) -> None:
    """What lies behind sorting long rows, beside its results."""
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
def largest_values(launch: Launch) -> None:
    """By digits, from the highest: how often each occurs is counted in each block, and summed for each row."""
    launch.place_all()
    source = launch.args[0]
    row = source.shape[launch.argument(2, "dim", -1)] if source.dim() else 1
    rows = source.numel() // max(1, row)
    copies = []
    if not source.is_contiguous():
        copies.append(launch.take(source.numel() * source.element_size()))
    if rows and row >= _long_row(rows):
        blocks = rows * _ceil(row, _THREADS * _values_of_a_thread(launch.gpu, rows * row))
        digits = 8 if source.element_size() == 8 else 4
        counts = [blocks * _DIGITS * 2, rows * _DIGITS * 4, blocks * 4, blocks * 4]
        held = [
            launch.take(size)
            for size in (rows * source.element_size(), 2 * rows * 4, 2 * rows * digits, *counts)
        ]
        for _ in range(2):
            launch.scratch(scan_scratch(blocks, _SCAN_BY_KEY_TILE))
        launch.give(*reversed(held))
    launch.give(*copies)
    taken = launch.argument(1, "k")
    if launch.argument(4, "sorted", True) and taken > SORTED_IN_PLACE:
        _put_in_order(launch, rows, taken)


def _put_in_order(launch: Launch, rows: int, taken: int) -> None:
    """Many that were taken are sorted into new memory, their places are looked up, and both copied back."""
    size = launch.outputs[0].element_size()
    held = [launch.take(rows * taken * each) for each in (_INDEX, size)]
    sort_rows(launch, rows, taken, size)
    launch.scratch(rows * taken * _INDEX)
    launch.give(*reversed(held))


def _long_row(rows: int) -> int:
    return next((length for most, length in _LONG_ROWS if rows <= most), _LONG_AMONG_MANY)


def _values_of_a_thread(gpu: Gpu, values: int) -> int:
    at_once = gpu.multiprocessors * _AT_ONCE * _THREADS
    return max(_MIN_VALUES, min(_ceil(values, at_once), _MAX_VALUES))
