"""Sorts and what is built on them: gradients of embeddings and of indexing."""

from __future__ import annotations

import torch

from .registry import Launch, rule

_INDEX = 8
# CUB rounds every part of its scratch up to this, and adds one less for alignment.
_CUB = 256
_DIGITS = 256
_SORT_TILE = 4608
_UNIQUE_TILE = 4608
_SCAN_TILE = 896
# Up to this many tokens an embedding's gradient is summed without sorting.
_UNSORTED_TOKENS = 3072
_ROWS_PER_PARTIAL = 10


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _round(size: int) -> int:
    return _ceil(size, _CUB) * _CUB


def sort_scratch(count: int, key: int = _INDEX, value: int = _INDEX, bits: int = 64) -> int:
    """CUB's radix sort: digit counts, one row per tile, and second copies where it takes several passes."""
    passes = max(1, _ceil(bits, 8))
    counts = passes * _DIGITS * 8 + _ceil(count, _SORT_TILE) * _DIGITS * 4
    copies = _round(count * key) + _round(count * value) if passes > 1 else 0
    return copies + counts + _CUB + _CUB - 1


def scan_scratch(count: int, tile: int = _SCAN_TILE) -> int:
    """CUB's scan and unique: sixteen bytes of state per tile, and for a warp more."""
    return _round((32 + _ceil(count, tile)) * 16) + _CUB + _CUB - 1


@rule("aten.embedding_dense_backward")
def embedding_backward(launch: Launch) -> None:
    grad, indices, vocabulary = launch.args[:3]
    count = indices.numel()
    held = [
        launch.take(t.numel() * t.element_size()) for t in (indices, grad) if not t.is_contiguous()
    ]
    if count <= _UNSORTED_TOKENS:
        launch.place_all()
        launch.give(*reversed(held))
        return
    held += [launch.take(count * _INDEX), launch.take(count * _INDEX)]
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


def _few_rows(gpu, segments: int, partials: int, width: int) -> bool:
    """Whether the rows are so few that they are summed with atomic adds."""
    warped = _ceil(width, 32) * 32
    grid = _ceil(segments * warped, min(warped, 1024))
    return grid < gpu.multiprocessors * 4 and partials > grid * 4


@rule("aten.index_put", "aten.index_put_", "aten._index_put_impl_")
def index_put(launch: Launch) -> None:
    """Adding to places that may repeat sorts them first; plain writing does not."""
    launch.place_all()
    target, indices, values = launch.args[:3]
    indices = [i for i in indices if i is not None]
    if not launch.argument(3, "accumulate", False) or not indices or indices[0].dtype == torch.bool:
        return
    shape = torch.broadcast_shapes(*(i.shape for i in indices))
    count = shape.numel()
    linear = 0
    for _ in indices:
        wrapped = launch.take(count * _INDEX)
        scaled = launch.take(count * _INDEX)
        launch.give(wrapped)
        if linear:
            total = launch.take(count * _INDEX)
            launch.give(scaled, linear)
            scaled = total
        linear = scaled
    held = [linear]
    if not values.is_contiguous():
        held.append(launch.take(values.numel() * values.element_size()))
    rows = 1
    for position, index in enumerate(launch.args[1]):
        if index is not None:
            rows *= target.shape[position]
    held += [launch.take(count * _INDEX), launch.take(count * _INDEX)]
    launch.scratch(count * _INDEX, sort_scratch(count, bits=max(1, (rows - 1).bit_length())))
    launch.give(*reversed(held))
