"""Distances of all pairs of points, worked out as one product of matrices."""

from __future__ import annotations

from typing import Any

from .reductions import reduce_over
from .registry import Launch, rule


@rule("aten._euclidean_dist")
def euclidean(launch: Launch) -> None:
    """Each point gets two more columns, its squared length and ones: the product then has all the terms."""
    left, right = launch.args[:2]
    lengths = [_lengths(launch, left), _lengths(launch, right)]
    scaled = launch.take(_bytes(left))
    wide = [launch.take(_bytes(left) + 2 * _column(left))]
    launch.give(*lengths[0], scaled)
    wide.append(launch.take(_bytes(right) + 2 * _column(right)))
    launch.give(*lengths[1])
    launch.place_all()
    launch.workspace("cublas", launch.gpu.blas_workspace)
    launch.give(*wide)


def _lengths(launch: Launch, points: Any) -> list[int]:
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
