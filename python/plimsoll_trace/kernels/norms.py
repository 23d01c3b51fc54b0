"""Normalisations: copies of what does not lie in one run, and their statistics."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from .convolution import channels_last
from .reductions import reduce_over
from .registry import Launch, rule

# From this many rows of few columns on, a layer norm's gradients are summed in blocks of rows first.
_MANY_ROWS = 64 * 1024
_ROWS_IN_BLOCK = 32
_WARP = 32
# PyTorch's own over the rows of a table: threads of a block, values of each, and how many blocks share a column.
_THREADS, _VALUES_OF_THREAD = 512, 16
_FEWEST, _HIGHEST = 8, 128
# cuDNN's batch norm over pixels in one run: rows of a block, and a head that all have.
_BATCH_ROWS, _BATCH_HEAD = 96, 1056


def _copies(launch: Launch, *tensors) -> list:
    return [
        launch.take(t.numel() * t.element_size())
        for t in tensors
        if t is not None and not t.is_contiguous()
    ]


@rule("aten.native_layer_norm", "aten._fused_rms_norm")
def layer_norm(launch: Launch) -> None:
    copies = _copies(launch, launch.args[0])
    launch.place_all()
    launch.give(*reversed(copies))


@rule("aten.native_layer_norm_backward", "aten._fused_rms_norm_backward")
def layer_norm_backward(launch: Launch) -> None:
    grad, source = launch.args[:2]
    copies = _copies(launch, source)
    launch.place_all()
    dense = _copies(launch, grad)
    _sums_of_blocks(launch, source.numel(), prod(launch.args[2]))
    launch.give(*reversed(dense))
    launch.give(*copies)


def _sums_of_blocks(launch: Launch, values: int, columns: int) -> None:
    rows = values // max(1, columns)
    if rows <= _MANY_ROWS or columns // _WARP >= launch.gpu.multiprocessors // 2:
        return
    wanted = [t for t in launch.outputs[1:] if isinstance(t, torch.Tensor)]
    shape = (-(-rows // _ROWS_IN_BLOCK), columns)
    blocks = [torch.empty(shape, dtype=t.dtype, device="meta") for t in wanted]
    taken = [launch.take(t.numel() * t.element_size()) for t in blocks]
    for block in blocks:
        taken.append(launch.take(columns * block.element_size()))
        reduce_over(launch, block, 0, max(4, block.element_size()))
    launch.give(*reversed(taken))


@rule("aten.native_group_norm")
def group_norm(launch: Launch) -> None:
    """A scale and a shift for each image and channel, worked out in float32."""
    copies = _copies(launch, launch.args[0])
    launch.place_all()
    images, channels = launch.args[3], launch.args[4]
    launch.scratch(images * channels * 4, images * channels * 4)
    launch.give(*reversed(copies))


@rule("aten.native_group_norm_backward")
def group_norm_backward(launch: Launch) -> None:
    copies = _copies(launch, launch.args[0], launch.args[1])
    launch.place_all()
    images, channels, groups = launch.args[5], launch.args[6], launch.args[8]
    whole, grouped = images * channels * 4, images * groups * 4
    launch.scratch(whole, whole, grouped, grouped, whole)
    launch.give(*reversed(copies))


@rule("aten.native_batch_norm", "aten._native_batch_norm_legit")
def batch_norm(launch: Launch) -> None:
    """Mean, spread and count of each block; what they take is exact for nine layers that an H200 ran."""
    launch.place_all()
    source = launch.args[0]
    if _pixel_by_pixel_in_cudnn(source, launch.argument(5, "training")):
        blocks, channels = _blocks(source), source.shape[1]
        rows = 2 * blocks + -(-blocks // 2) * 2
        launch.scratch(channels * 129 * rows // 32 + 16 + _BATCH_HEAD + channels // 16)
    elif launch.argument(5, "training") and _is_a_table(source):
        # Sums, their squares and counts.
        _parts_of_columns(launch, source, 4)


@rule("aten.native_batch_norm_backward")
def batch_norm_backward(launch: Launch) -> None:
    source, trains = launch.args[1], launch.argument(7, "train")
    if trains and _is_a_table(source):
        sums = [launch.take(source.shape[1] * _size_of_sums(source)) for _ in range(2)]
        launch.place(1)
        launch.place(2)
        _parts_of_columns(launch, source, 2)
        launch.place(0)
        launch.give(*reversed(sums))
        return
    launch.place_all()
    if _pixel_by_pixel_in_cudnn(source, trains):
        channels = source.shape[1]
        launch.scratch(_blocks(source) * channels * 8 + _BATCH_HEAD + channels // 16)


def _pixel_by_pixel_in_cudnn(source: Any, training: Any) -> bool:
    return (
        bool(training)
        and source.dtype == torch.float32
        and torch.backends.cudnn.enabled
        and channels_last(source)
    )


def _blocks(source: Any) -> int:
    return -(-source.numel() // source.shape[1] // _BATCH_ROWS)


def _is_a_table(source: Any) -> bool:
    """Samples without pixels: cuDNN leaves them to a kernel of PyTorch's for channels that lie side by side."""
    return source.dim() == 2 and source.stride(1) == 1


def _parts_of_columns(launch: Launch, source: Any, values: int) -> None:
    """Blocks that share a column leave their parts for the last of them, where they are eight or more."""
    channels = source.shape[1]
    rows = source.numel() // max(1, channels)
    wide = min(_power_below(channels), _WARP)
    # Of fewer rows a block has fewer threads, and no other block shares its columns.
    high = _THREADS // wide
    blocks = min(-(-rows // (high * _VALUES_OF_THREAD)), _HIGHEST)
    if blocks >= _FEWEST:
        launch.scratch(values * channels * blocks * _size_of_sums(source), -(-channels // wide) * 4)


def _size_of_sums(source: Any) -> int:
    return max(4, source.element_size())


def _power_below(count: int) -> int:
    return 1 << max(0, count.bit_length() - 1)
