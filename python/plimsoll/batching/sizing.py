"""Decides the size of the next batch from how full memory is."""

from __future__ import annotations

SHRINK_ABOVE = 0.85
GROW_BELOW = 0.50


def next_size(
    size: int,
    largest: int,
    smallest: int,
    used_share: float,
    shrink_above: float,
    grow_below: float,
) -> int:
    """Half as many above one line, twice as many below the other, never more than was asked for.

    >>> next_size(32, 32, 1, 0.9, 0.85, 0.5)
    16
    >>> next_size(16, 32, 1, 0.4, 0.85, 0.5)
    32
    """
    if used_share > shrink_above:
        return max(smallest, size // 2)
    if used_share < grow_below:
        return min(largest, size * 2)
    return size
