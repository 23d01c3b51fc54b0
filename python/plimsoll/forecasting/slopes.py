"""Slopes of points over time: the middle of all pairs, and least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """A value of a series at its time."""

    seconds: float
    bytes: float


def pairwise_slopes(points: Sequence[Point]) -> list[float]:
    """Sorted slopes of the pairs that lie at least a third of the window apart (Theil and Sen's)."""
    apart = max(1, len(points) // 3)
    return sorted(
        (late.bytes - early.bytes) / (late.seconds - early.seconds)
        for index, early in enumerate(points)
        for late in points[index + apart :]
        if late.seconds > early.seconds
    )


def line_slope(points: Sequence[Point]) -> float:
    """Least-squares slope."""
    count = len(points)
    middle = sum(point.seconds for point in points) / count
    mean = sum(point.bytes for point in points) / count
    up = sum((point.seconds - middle) * (point.bytes - mean) for point in points)
    down = sum((point.seconds - middle) ** 2 for point in points)
    return up / down if down > 0 else 0.0


def median(values: Sequence[float]) -> float:
    return quantile(sorted(values), 0.5)


def quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return math.nan
    at = (len(ordered) - 1) * share
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))
