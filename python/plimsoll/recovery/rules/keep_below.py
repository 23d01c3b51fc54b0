"""Decides before a step whether its size will still fit: by what was measured, and how it grows.

The supervisor decides by the same rule (src/batches/sizes.ts); test/fixtures/recovery-rules.json holds
both to the same answers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ...memory.load_line import LOAD_LINE
from .sizes import Measured

# A size that will be too large within so many steps is too large; or twice those since the last look.
LEAST_STEPS_AHEAD = 4
# Growth is believed once it was seen this often: what comes once (optimizer states) is no growth.
LEAST_RISES = 3
# Two sizes tell what a sample needs; a part of a step's memory is the same for every size (gradients), but not
# more of it than this.
LEAST_SAMPLE_SHARE = 0.25


class Reading(NamedTuple):
    """What one step had: its largest microbatch, what was held before it, and its peak."""

    step: int
    microbatch: int
    base_bytes: int
    peak_bytes: int


class Ahead(NamedTuple):
    """All that is known before a step; `measured` holds the sizes that fitted, with what is held now."""

    step: int
    microbatch: int
    readings: Sequence[Reading]
    measured: Measured


def keep_below(ahead: Ahead) -> tuple[int, str] | None:
    """A smaller microbatch where this one will pass the load line, and why; None where it may stay.

    It removes half at most, unless memory would run out.

    >>> known = Measured(base_bytes=500, limit_bytes=1000)
    >>> keep_below(Ahead(2, 8, [Reading(1, 8, 400, 880)], known))
    (6, '8 samples will need 0.0 GiB of 0.0 GiB')
    """
    size, measured = ahead.microbatch, ahead.measured
    own = [one for one in ahead.readings if one.microbatch == size]
    limit, now = measured.limit_bytes, measured.base_bytes
    if not own or limit is None or now is None or size <= 1:
        return None
    last = own[-1]
    steps = max(LEAST_STEPS_AHEAD, 2 * (ahead.step - last.step))
    held = [*((one.step, one.base_bytes) for one in ahead.readings), (ahead.step, now)]
    base_growth = _growth(held)
    work_growth = _growth([(one.step, one.peak_bytes - one.base_bytes) for one in own])
    base = now + base_growth * steps
    work = max(0, last.peak_bytes - last.base_bytes) + work_growth * steps
    budget = limit * LOAD_LINE
    if base + work <= budget:
        return None
    runs_out = base + work > limit
    # What is held anyway lies above the load line, and no size changes that.
    if base >= budget and not runs_out:
        return None
    per_sample = _sample_bytes(measured.fitted, work / size)
    fits = size - math.ceil((base + work - budget) / per_sample) if per_sample > 0 else 1
    least = 1 if runs_out else size // 2
    grows = base_growth + work_growth
    rate = f", growing by {grows / 2**20:.1f} MiB a step" if grows > 0 else ""
    why = (
        f"{size} samples will need {(base + work) / 2**30:.1f} GiB of {limit / 2**30:.1f} GiB{rate}"
    )
    return max(1, least, fits), why


def _growth(points: Sequence[tuple[int, float]]) -> float:
    """Bytes a step, in the middle of what was seen; 0 where it was seen too seldom, or falls."""
    rises = [
        (later[1] - before[1]) / (later[0] - before[0])
        for before, later in zip(points, points[1:])
        if later[0] > before[0]
    ]
    return max(0.0, statistics.median(rises)) if len(rises) >= LEAST_RISES else 0.0


def _sample_bytes(fitted: Sequence[tuple[int, int]], share: float) -> float:
    points = sorted(fitted)
    if not points or points[-1][0] <= points[0][0]:
        return share
    (small, low), (large, high) = points[0], points[-1]
    return min(share, max((high - low) / (large - small), LEAST_SAMPLE_SHARE * share))
