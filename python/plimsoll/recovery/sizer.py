"""How many samples a microbatch has, what was measured of sizes, and when they change."""

from __future__ import annotations

from typing import Any, Callable, Optional

from .sizes import LOAD_LINE, Growth, PeakLine

# Where a failure cannot be taken back, one starts small, and these clean steps are enough to grow.
EARLY_GROWTH = 2
# A batch in very many parts does not wait for its end to grow: that could be hours away.
MANY_PARTS = 64


class Sizer:
    """Without a size of its own a batch is tried whole, however large it is, until one fails."""

    def __init__(self, size: Optional[int], grow_after: int, gauge: Any, may_differ: bool) -> None:
        self.line = PeakLine()
        self.size = size if may_differ else size or 1
        self._whole = self.size is None
        self._gauge = gauge
        # Ranks whose sizes must be the same wish for one, and agree at the end of a step.
        self._may_differ = may_differ
        self._wish: Optional[int] = None
        self._growth = Growth(grow_after if may_differ else min(grow_after, EARLY_GROWTH))
        self._before_others: Optional[int] = None
        self._measured = 0
        self.smallest_failed: Optional[int] = None

    @property
    def is_new(self) -> bool:
        """Whether this size has not been measured yet."""
        return self._measured < 2

    def begin(self, count: int) -> None:
        """Before a batch: its size if nothing else was said, and a fresh peak while sizes are new."""
        if self._whole or self.size is None:
            self.size, self._whole = count, True
        if self.is_new:
            self.line.rests_at(self._gauge.used_bytes())
            self._gauge.reset_peak()

    def set(self, size: Optional[int]) -> None:
        if size is not None and size != self.size:
            self._whole = False
            self.size = size
            self._measured = 0

    def grow(self, size: int) -> None:
        if self._may_differ:
            self.set(size)
        else:
            self._wish = size

    def take_wish(self) -> int:
        """What this rank would have next: the smallest wish of all ranks counts for all."""
        wish, self._wish = self._wish, None
        return wish or self.size or 1

    def failed(self, failed: int, size: int, waited: bool, others_hold: bool) -> None:
        """After a failure the decided size; once others have left the device, the one before they came."""
        if size < failed:
            self._growth.failed(failed)
            self.smallest_failed = min(failed, self.smallest_failed or failed)
        if others_hold:
            self._before_others = self._before_others or failed
        elif self._before_others is not None:
            size, self._before_others = (self._before_others if waited else size), None
        self.set(size)
        self._measured = 0

    def clean_step(self, run: Any, peak_bytes: Optional[int], alone: bool, grow: Callable[[int, str], None]) -> None:
        """A step without a failure, its peak where somebody looked; without a supervisor it may grow."""
        if peak_bytes is not None:
            self._measured += 1
            self.line.measured(max(run.partition), peak_bytes)
        if not alone or not self._growth.is_due(self.size, run.count):
            return
        grown = self._growth.grow(self.size, run.count, self.line, LOAD_LINE * self._gauge.capacity_bytes())
        if grown is not None:
            grow(grown, "clean steps, and measured peaks under the load line")
            self._whole = self._may_differ and grown >= run.count

    def clean_part(self, run: Any, grow: Callable[[int, str], None]) -> None:
        if not self._may_differ or len(run.partition) % MANY_PARTS or run.done >= run.count:
            return
        self.line.measured(run.partition[-1], self._gauge.peak_bytes())
        fits = self.line.largest_under(LOAD_LINE * self._gauge.capacity_bytes())
        if fits is not None and fits >= 2 * self.size and run.partition[-1] == self.size:
            grow(2 * self.size, f"{MANY_PARTS} parts of one batch went well")
