"""Decides the size of the next batch from how full memory is, and where it is going.

`adaptiveBatches` of Node decides by the same rule (src/batches/batch-size.ts); test/fixtures/recovery-rules.json
holds both to the same answers.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

SHRINK_ABOVE = 0.85
GROW_BELOW = 0.50
# Looks at the memory by which its rise is told.
LOOKS_KEPT = 4
# Memory that will be above the mark within so many looks counts as above it.
LOOKS_AHEAD = 2


def next_size(
    size: int,
    largest: int,
    smallest: int,
    used_shares: Sequence[float],
    shrink_above: float,
    grow_below: float,
    resting_share: float | None = None,
) -> int:
    """Half as many above one line, or where memory rises to it; twice as many below the other, never more than
    was asked for.

    `used_shares` are the highest of each look since this size was taken, the newest last, and `resting_share`
    what is in use between batches, where that is known.

    >>> next_size(32, 32, 1, [0.9], 0.85, 0.5)
    16
    >>> next_size(32, 32, 1, [0.62, 0.68, 0.74, 0.8], 0.85, 0.5)
    16
    >>> next_size(16, 32, 1, [0.4], 0.85, 0.5)
    32
    """
    if not used_shares:
        return size
    used = used_shares[-1]
    if used + LOOKS_AHEAD * _rise(used_shares) > shrink_above:
        return max(smallest, size // 2)
    twice = used + max(0.0, used - (used if resting_share is None else resting_share))
    if used < grow_below and twice <= shrink_above:
        return min(largest, size * 2)
    return size


def _rise(used_shares: Sequence[float]) -> float:
    """Growth from one check to the next: the median of the last ones, so that one jump does not count as growth."""
    last = list(used_shares)[-LOOKS_KEPT:]
    if len(last) < LOOKS_KEPT:
        return 0.0
    return max(0.0, statistics.median(after - before for before, after in zip(last, last[1:])))
