"""How many samples a microbatch has, what was measured of sizes, and when they change."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

from ...memory.host import give_back_heap
from ...memory.load_line import LOAD_LINE
from .sizes import CLEAN_TO_GROW, Growth, Measured, even_part, grow_back

# Decides before a step whether its size will still fit: by what was measured, and how it grows.
#
# The supervisor decides by the same rule (src/batches/sizes/keep-below.ts); test/fixtures/recovery-rules.json holds
# both to the same answers.

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


# Where a failure cannot be taken back, one starts small, and these clean steps are enough to grow.
EARLY_GROWTH = 2
# A batch in very many parts does not wait for its end to grow: that could be hours away.
MANY_PARTS = 64
# Between looks at memory once a size is known: a look costs tens of microseconds.
LOOK_SECONDS = 0.25
# Steps by which growth is told.
READINGS = 8


# Enough to draw a line; a job that sees many sizes keeps the newest.
MAX_SIZES = 16


class Peaks:
    """Peaks of memory by the size of a microbatch, as they were measured."""

    def __init__(self) -> None:
        self._peaks: dict[int, int] = {}
        self._base: int | None = None

    @property
    def base_bytes(self) -> int | None:
        return self._base

    def rests_at(self, used_bytes: int) -> None:
        """What is held between steps: the line's value at size 0, and never above it. Peaks rise with it."""
        if self._base is None:
            self._base = used_bytes
        elif used_bytes > self._base:
            # The optimizer's states, made in the first step: every later peak is higher by them.
            more, self._base = used_bytes - self._base, used_bytes
            self._peaks = {size: peak + more for size, peak in self._peaks.items()}

    def measured(self, size: int, peak_bytes: int) -> None:
        highest = max(peak_bytes, self._peaks.pop(size, 0))
        self._peaks[size] = highest
        while len(self._peaks) > MAX_SIZES:
            del self._peaks[next(iter(self._peaks))]

    def forget_from(self, failed: int) -> None:
        """Sizes that fitted, and now fail: what was measured of them no longer holds."""
        for size in [size for size in self._peaks if size >= failed]:
            del self._peaks[size]

    def __contains__(self, size: int) -> bool:
        """Whether a microbatch of this size was seen to fit."""
        return size in self._peaks

    def all(self) -> list[tuple[int, int]]:
        """(size, peak) of each size that fitted. Also for another thread: the dict is copied first."""
        return sorted(self._peaks.copy().items())

    def under(self, limit_bytes: float | None) -> Measured:
        """All that is known of sizes, under a limit."""
        return Measured(self.all(), self._base, limit_bytes)


class Sizer:
    """Without a size of its own a batch is tried whole, however large it is, until one fails."""

    def __init__(self, size: int | None, grow_after: int, gauge: Any, may_differ: bool) -> None:
        self.peaks = Peaks()
        self.size = size if may_differ else size or 1
        self._whole = self.size is None
        self._gauge = gauge
        # Ranks whose sizes must be the same wish for one, and agree at the end of a step.
        self._may_differ = may_differ
        self._wish: int | None = None
        self._grow_after = grow_after if may_differ else min(grow_after, EARLY_GROWTH)
        self._clean = self._failed_growths = 0
        # The size before it last grew, until that proved right or wrong.
        self._grew_from: int | None = None
        self._before_others: int | None = None
        self._last_failed: int | None = None
        self._measured = 0
        self.smallest_failed: int | None = None
        # Whether the peak of the step that runs is looked at.
        self.looking = True
        self.is_careful = False
        self._looked = 0.0
        self._base = 0
        self._largest = 0
        self._readings: deque[Reading] = deque(maxlen=READINGS)

    @property
    def is_new(self) -> bool:
        """Whether this size has not been measured yet."""
        return self._measured < 2

    def measured(self) -> Measured:
        """All that is known of sizes, under what the device can give now."""
        return self.peaks.under(self._gauge.capacity_bytes())

    def begin(self, count: int) -> None:
        """Before a batch: its size if nothing else was said, and a fresh peak while sizes are new."""
        if self._whole or self.size is None:
            self.size, self._whole = count, True
        if self.is_new:
            self.peaks.rests_at(self._gauge.used_bytes())
            self._gauge.reset_peak()

    def look_ahead(self, count: int, step: int) -> Ahead | None:
        """What is known of the next step, where it is looked at; None where its size may not change.

        After the first step the optimizer's states are held, too: what fitted then may not fit now, and a
        failure in backward costs the whole batch.
        """
        now = time.monotonic()
        self.looking = self.is_new or now - self._looked >= LOOK_SECONDS
        if not self.looking:
            return None
        self._looked = now
        if not self.is_new:
            # Steps between two looks have peaks, too.
            self.peaks.measured(self._largest, self._gauge.peak_bytes())
            self._gauge.reset_peak()
        self._look()
        if not self._may_differ or self.size is None or not self._readings:
            return None
        known = self.measured()._replace(base_bytes=self._base)
        return Ahead(step, even_part(count, self.size), list(self._readings), known)

    def shrink(self, size: int) -> None:
        """Before a failure. Growing back waits twice as long: what grows may go on growing."""
        self._clean, self._grew_from = 0, None
        self._failed_growths += 1
        self.set(size)

    def be_careful(self, ahead: Ahead) -> Ahead:
        """On the host, near its limit: what the heap keeps looked like memory in use, so sizes are measured anew.

        The same step with what is held without that.
        """
        self.is_careful = True
        self.peaks = Peaks()
        self._readings.clear()
        self._measured = 0
        self._look()
        return ahead._replace(measured=ahead.measured._replace(base_bytes=self._base))

    def _look(self) -> None:
        if self.is_careful:
            give_back_heap()
        self._base = self._gauge.used_bytes()
        self.peaks.rests_at(self._base)
        if self.is_careful:
            self._gauge.reset_peak()

    def set(self, size: int | None) -> None:
        if size is not None and size != self.size:
            self._whole = False
            self.size = size
            self._measured = 0

    def grow(self, size: int) -> None:
        self._grew_from, self._clean = self.size, 0
        if self._may_differ:
            self.set(size)
        else:
            self._wish = size

    def take_wish(self) -> int:
        """What this rank would have next: the smallest wish of all ranks counts for all."""
        wish, self._wish = self._wish, None
        return wish or self.size or 1

    def failed_lately(self, size: int) -> bool:
        """Whether this size failed in steps just before: what fitted then no longer does."""
        return size == self._last_failed and self._clean < CLEAN_TO_GROW

    def failed(self, failed: int, size: int, waited: bool, others_hold: bool) -> None:
        """After a failure the decided size; once others have left the device, the one before they came."""
        self._clean, self._last_failed = 0, failed
        if size < failed:
            self.peaks.forget_from(failed)
            self.smallest_failed = min(failed, self.smallest_failed or failed)
            if self._grew_from is not None and failed > self._grew_from:
                self._failed_growths += 1
            self._grew_from = None
        if others_hold:
            self._before_others = self._before_others or failed
        elif self._before_others is not None:
            size, self._before_others = (self._before_others if waited else size), None
        self.set(size)
        self._measured = 0
        # What the failed try reached says nothing of the sizes that follow.
        self._gauge.reset_peak()

    def after_failures(self, run: Any, step: int, peak_bytes: int) -> None:
        """A batch that was recovered: its peak since the last failure is that of the size it ended with."""
        sizes = [size for size in run.partition if self.size is None or size <= self.size]
        if sizes:
            self.peaks.measured(max(sizes), peak_bytes)
            self._readings.append(Reading(step, max(sizes), self._base, peak_bytes))

    def clean_step(
        self,
        run: Any,
        step: int,
        peak_bytes: int | None,
        alone: bool,
        grow: Callable[[int, str], None],
    ) -> None:
        """A step without a failure, its peak where somebody looked; without a supervisor it may grow."""
        self._clean += 1
        if peak_bytes is None:
            return
        largest = max(run.partition)
        self._largest = largest
        self._readings.append(Reading(step, largest, self._base, peak_bytes))
        self._measured += 1
        self.peaks.measured(largest, peak_bytes)
        if self.smallest_failed is not None and largest >= self.smallest_failed:
            self.smallest_failed = None
        if not alone or self.size is None or self.size >= run.count:
            return
        at = Growth(
            self.size,
            run.count,
            self._clean,
            self._failed_growths,
            self.smallest_failed,
            self._grow_after,
        )
        grown = grow_back(at, self.measured())
        if grown is not None:
            grow(grown, "clean steps, and measured peaks under the load line")
            self._whole = self._may_differ and grown >= run.count

    def clean_part(self, run: Any, grow: Callable[[int, str], None]) -> None:
        if not self._may_differ or len(run.partition) % MANY_PARTS or run.done >= run.count:
            return
        self.peaks.measured(max(run.partition), self._gauge.peak_bytes())
        fits = self.measured().largest()
        twice = 2 * self.size if self.size is not None else run.count
        if fits is not None and fits >= twice:
            grow(twice, f"{MANY_PARTS} parts of one batch went well")
