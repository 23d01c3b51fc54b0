"""Decides how large a microbatch may be, from what was measured: peak = a + b x microbatch.

The supervisor decides by the same rules (src/batches/sizes); test/fixtures/recovery-rules.json holds both to
the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...memory.load_line import LOAD_LINE

# Clean steps before a size is tried that was not seen to fail, or that failed long ago.
CLEAN_TO_GROW = 20
# A size below the one that failed is tried as soon as the peaks of so many steps were measured.
CLEAN_TO_SETTLE = 2
LONGEST_WAIT = 4096
# Kernels of tensor cores take samples in such numbers.
ALIGNED = 8
# Of one peak at most this share is base: a line must rise, or every size would fit.
LARGEST_BASE_SHARE = 0.95

Line = tuple[float, float]


class Measured(NamedTuple):
    """Sizes that fitted with their peaks, what is held between steps, and the limit. None is unknown."""

    fitted: Sequence[tuple[int, int]] = ()
    base_bytes: float | None = None
    limit_bytes: float | None = None

    def line(self) -> Line | None:
        """(a, b) in bytes: no measured peak lies above it; None where nothing was measured."""
        points = sorted(self.fitted)
        if len(points) > 1:
            (small, low), (large, high) = points[0], points[-1]
            slope = (high - low) / (large - small)
            base = max(peak - slope * size for size, peak in points)
            # A line that falls, or starts below 0, says that the sizes did not differ enough to tell.
            if slope > 0 and base >= 0:
                return base, slope
        return self.through(*points[-1]) if points else None

    def through(self, size: int, peak: float) -> Line:
        """By one size; without a base each sample is taken to need more than it does: on the safe side."""
        base = min(self.base_bytes or 0, peak * LARGEST_BASE_SHARE)
        return base, (peak - base) / size

    def largest(self) -> int | None:
        """The largest size whose peak stays under the load line; None when that cannot be told."""
        line = self.line()
        if line is None or self.limit_bytes is None:
            return None
        return fitting(line, self.limit_bytes * LOAD_LINE)


def fitting(line: Line, budget_bytes: float) -> int:
    return max(0, math.floor((budget_bytes - line[0]) / line[1]))


def even_part(batch: int, most: int) -> int:
    """The largest part when a batch is cut into as few parts as fit, all of nearly the same size.

    >>> even_part(9, 8)
    5
    """
    return math.ceil(batch / parts_of(batch, most)) if batch > 0 else 0


def aligned_part(batch: int, most: int) -> int:
    """The same, in eights where that takes no more parts and is still nearly even.

    For counts of other remainders a card loads other, slower kernels, which takes as long as several steps.

    >>> aligned_part(256, 60)
    56
    """
    even = even_part(batch, most)
    aligned = math.ceil(even / ALIGNED) * ALIGNED
    return aligned if even >= 2 * ALIGNED and aligned <= min(batch, most) else even


def parts_of(batch: int, most: int) -> int:
    return math.ceil(batch / max(1, most))


def smaller(
    failed: int, measured: Measured, peak: int | None = None, asked: int | None = None
) -> tuple[int, str]:
    """The size to try after one that failed, and what it comes from.

    >>> smaller(32, Measured(limit_bytes=8e9))
    (16, 'half of what failed')
    >>> smaller(3, Measured(limit_bytes=8e9))
    (2, 'half of what failed')
    """
    # Rounded up: an odd batch is then two parts, not three, and 2 is tried between 3 and 1.
    half = math.ceil(failed / 2)
    limit = measured.limit_bytes
    if limit is None:
        return half, "half of what failed"
    proven = max(
        (size for size, held in measured.fitted if size < failed and held <= limit), default=0
    )
    by_line = measured.largest() or 0
    if proven < by_line < failed:
        return by_line, "measured peaks say that fits"
    if proven > 0:
        # A line by which the size that failed would have fitted is refuted: what went well is still true.
        quarter = 0 if by_line < failed else failed // 4
        return (
            (quarter, "a quarter of what failed")
            if proven < quarter
            else (proven, "that many fitted before")
        )
    held = limit if peak is None else peak
    line = measured.through(failed, max(limit, held + (asked or 0), asked or 0))
    budget = limit * LOAD_LINE
    # What is held anyway may pass the load line: then no size stays under it, and half is tried.
    by_need = fitting(line, budget) if line[0] < budget else half
    return (
        (half, "half of what failed")
        if by_need >= half
        else (max(1, by_need), "by what it asked for")
    )


class Growth(NamedTuple):
    """Where a size stands on its way back."""

    size: int
    batch: int
    clean_steps: int
    failed_growths: int = 0
    smallest_failed: int | None = None
    grow_after: int = CLEAN_TO_GROW
    may_guess: bool = False


def grow_back(at: Growth, measured: Measured) -> int | None:
    """The size to grow to, or None to stay.

    Halving after a failure goes too far down, so sizes between what fits and what failed are tried soon: up to
    the line, or half way where the line says that even the failed size fits. At the size that failed, and
    beyond it, only after many clean steps. Each growth that failed doubles the wait.
    """
    if at.size >= at.batch:
        return None
    fits = measured.largest()
    if fits is None and not at.may_guess:
        return None
    most = min(at.batch, at.size * 2, at.batch if fits is None else fits)
    failed = math.inf if at.smallest_failed is None else at.smallest_failed
    below = most if most < failed else int((at.size + failed) // 2)
    now = parts_of(at.batch, at.size)
    # A size that makes no fewer parts would change nothing.
    target = below if parts_of(at.batch, below) < now else most
    soon = at.smallest_failed is not None and target < failed and fits is not None
    needed = min(at.grow_after, CLEAN_TO_SETTLE) if soon else at.grow_after
    wait = min(LONGEST_WAIT, needed * 2 ** min(at.failed_growths, 12))
    return target if at.clean_steps >= wait and parts_of(at.batch, target) < now else None
