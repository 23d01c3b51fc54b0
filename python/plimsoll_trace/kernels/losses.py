"""Losses and distances."""

from __future__ import annotations

from typing import Any

import torch

from .reductions import reduce_over
from .registry import Launch, rule

# Losses that PyTorch works out value by value and then sums up.


def forward(func, args, kwargs):
    """The result, as CUDA leaves it: one number in memory that was taken for all of them.

    The loss is first given the shape of its input and then made smaller, which frees nothing.
    """
    result = func(*args, **kwargs)
    if result.dim() != 0:
        return result
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    return torch.empty(shape, dtype=result.dtype, device=result.device).resize_(())


@rule("aten.mse_loss", "aten.smooth_l1_loss")
def reduced(launch: Launch) -> None:
    launch.place_all()
    result = launch.outputs[0]
    if result.dim() != 0:
        return
    shape = torch.broadcast_shapes(launch.args[0].shape, launch.args[1].shape)
    values = torch.empty(shape, dtype=result.dtype, device="meta")
    held = launch.take(values.numel() * values.element_size())
    reduce_over(launch, values, None, max(4, result.element_size()))
    launch.give(held)


# The loss of transcripts (CTC): a table of steps by places in the text, forward and backward.

_INT64 = 8
# From this measure of work on PyTorch sums in several kernels instead of one.
_MUCH = 450


def forward_of_ctc(args: tuple) -> tuple[Any, Any]:
    """What `_ctc_loss` returns, which has no meta kernel; of lengths that are data, the longest is taken."""
    steps, batch = args[0].shape[:2]
    lengths = args[3]
    given = isinstance(lengths, (list, tuple)) and len(lengths) > 0
    places = 2 * (max(lengths) if given else longest(args[1], batch)) + 1
    losses = torch.empty(batch, dtype=args[0].dtype, device="meta")
    return losses, torch.empty(batch, steps, places, dtype=args[0].dtype, device="meta")


def longest(targets: Any, batch: int) -> int:
    """The length of a text, as far as the shape of all of them tells it."""
    return targets.shape[1] if targets.dim() > 1 else -(-targets.shape[0] // max(1, batch))


def backward(args: tuple) -> Any:
    return torch.empty(args[1].shape, dtype=args[1].dtype, device="meta")


@rule("aten._ctc_loss")
def table(launch: Launch) -> None:
    """The lengths and offsets of the texts are copied to the device; then the table and the losses."""
    lengths = _lengths(launch, launch.args[0].shape[1])
    launch.place(1)
    launch.place(0)
    launch.give(lengths[1], lengths[0], lengths[2])


@rule("aten._ctc_loss_backward")
def table_backward(launch: Launch) -> None:
    """A second table; where there is much to sum, the blanks' share is worked out for all at once."""
    log_probs, losses_table = launch.args[1], launch.args[6]
    steps, batch, letters = log_probs.shape
    lengths = _lengths(launch, batch)
    second = launch.take(losses_table.numel() * losses_table.element_size())
    launch.place_all()
    if 2 * steps + 24 * batch // 10 + 2 * letters // 10 > _MUCH:
        _blanks(launch, steps * batch, (losses_table.shape[2] + 1) // 2, log_probs.element_size())
    launch.give(second, lengths[1], lengths[0], lengths[2])


def _lengths(launch: Launch, batch: int) -> list[int]:
    return [launch.take(batch * _INT64) for _ in range(3)]


def _blanks(launch: Launch, places: int, blanks: int, size: int) -> None:
    """The logarithm of a sum of exponentials over the blanks of both tables."""
    whole, rows = places * blanks * size, places * size
    both = launch.take(whole)
    result = launch.take(rows)
    launch.scratch(rows, places)
    powers = launch.take(whole)
    sums = launch.take(rows)
    launch.give(powers, result, sums, both)


# Distances of all pairs of points, worked out as one product of matrices.


@rule("aten._euclidean_dist")
def euclidean(launch: Launch) -> None:
    """Each point gets two more columns, its squared length and ones: the product then has all the terms."""
    left, right = launch.args[:2]
    lengths = [_lengths_of_distances(launch, left), _lengths_of_distances(launch, right)]
    scaled = launch.take(_bytes(left))
    wide = [launch.take(_bytes(left) + 2 * _column(left))]
    launch.give(*lengths[0], scaled)
    wide.append(launch.take(_bytes(right) + 2 * _column(right)))
    launch.give(*lengths[1])
    launch.place_all()
    launch.workspace("cublas", launch.gpu.blas_workspace)
    launch.give(*wide)


def _lengths_of_distances(launch: Launch, points: Any) -> list[int]:
    """The squared length of each point, and a column of ones."""
    squares = launch.take(_bytes(points))
    sums = launch.take(_column(points))
    reduce_over(launch, points, [points.dim() - 1], max(4, points.element_size()))
    launch.give(squares)
    return [sums, launch.take(_column(points))]


def _bytes(points: Any) -> int:
    return points.numel() * points.element_size()


def _column(points: Any) -> int:
    return _bytes(points) // max(1, points.shape[-1])
