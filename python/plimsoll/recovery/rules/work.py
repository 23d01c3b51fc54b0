"""A step or a function as its supervisor knows it: a name, where it stands, what it is told."""

from __future__ import annotations

from typing import Any

from ...bridge import connection
from .sizer import Sizer


class Work:
    def __init__(self, who: str, sizer: Sizer, gauge: Any) -> None:
        self.who = who
        self.bridge = connection.current()
        # False for a function: its calls are not training steps, and the report prefers these.
        self.is_training = True
        self.steps = 0
        self._batch = 0
        self._sizer = sizer
        self._gauge = gauge
        # Of the batches before the optimizer's last step; tensors, added up and read when they are told.
        self.losses: list[Any] = []

    def declare(self, hooks: Any, rank: int, world: int) -> None:
        if self.bridge is not None:
            self.bridge.know(self.who, self)
            self.bridge.declare(list(hooks), rank, world)

    @property
    def watched(self) -> bool:
        """Whether a supervisor is there now; without one, growing back is decided here."""
        return self.bridge is not None and self.bridge.alive

    def describe(self) -> dict[str, Any] | None:
        """For a supervisor that comes later. Called from another thread, and only then."""
        if self._sizer.size is None:
            return None
        return {
            "who": self.who,
            "steps": self.steps,
            "microbatch": self._sizer.size,
            "batch": max(self._batch, self._sizer.size),
            "sizes": [
                {"microbatch": size, "peakBytes": peak} for size, peak in self._sizer.peaks.all()
            ],
            "smallestFailed": self._sizer.smallest_failed,
        }

    def done(self, run: Any, grow: Any) -> None:
        """After a step: measured while its size is new, then now and then; told as seldom."""
        self.steps += 1
        self._batch = run.count
        peak = self._gauge.peak_bytes() if self._sizer.looking else None
        if not run.failures:
            self._sizer.clean_step(run, self.steps, peak, not self.watched, grow)
        elif peak is not None:
            self._sizer.after_failures(run, self.steps, peak)
        if peak is not None and self.bridge is not None:
            size = self._sizer.size or run.count
            loss = float(sum(self.losses)) if self.losses else None
            told = (self.steps, size, run.count, peak, self.who, loss, self.is_training)
            self.bridge.report_step(*told)

    def growth(self) -> int | None:
        """A larger size that the supervisor wants, once."""
        wanted = self.bridge.take_growth(self.who) if self.bridge is not None else None
        return (
            wanted
            if wanted is not None and self._sizer.size is not None and wanted > self._sizer.size
            else None
        )
