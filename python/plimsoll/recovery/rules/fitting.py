"""How a step, or a function, is kept within memory: what it uses, its sizes, who decides, who is told."""

from __future__ import annotations

from typing import Any

from ...bridge import connection
from ...memory.clean_up import give_back_caches
from ...memory.gauge import HostGauge
from ...memory.out_of_memory import OutOfMemory, recognise
from .decider import Decider
from .keep_below import keep_below
from .ladder import Decision
from .sizer import Sizer


class Work:
    """A step or a function as its supervisor knows it: a name, where it stands, what it is told."""

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


class Fitting:
    """One for each step and each function: two of them do not need the same memory."""

    def __init__(
        self,
        who: str,
        gauge: Any,
        microbatch: int | None,
        grow_after: int,
        may_differ: bool,
        patience: float,
    ) -> None:
        self.gauge = gauge
        self.sizer = Sizer(microbatch, grow_after, gauge, may_differ)
        self.work = Work(who, self.sizer, gauge)
        self.decider = Decider(gauge, self.sizer, self.work.bridge, patience, who)

    def take_growth(self) -> None:
        """A larger size where the supervisor wants one."""
        wanted = self.work.growth()
        if wanted is not None:
            self.decider.note_growth(
                self.sizer.size, wanted, "the supervisor said so", self.work.steps
            )
            self.sizer.grow(wanted)

    def foresee(self, count: int) -> None:
        """A smaller size before a batch that would pass the load line, by what was measured and how it grows."""
        ahead = self.sizer.look_ahead(count, self.work.steps + 1)
        told = None if ahead is None else keep_below(ahead)
        if ahead is None or told is None:
            return
        if isinstance(self.gauge, HostGauge) and not self.sizer.is_careful:
            self.decider.note_given_back(told[1], self.work.steps)
            ahead = self.sizer.be_careful(ahead)
            told = keep_below(ahead)
            if told is None:
                return
        size, why = self.decider.ask_ahead(ahead, count, *told)
        if size < ahead.microbatch:
            self.decider.note_smaller(ahead.microbatch, size, why, self.work.steps)
            self.sizer.shrink(size)
            # Pieces of the old size would stay in the allocator beside those of the new one.
            give_back_caches(collect=False, of_host=False)

    def out_of_memory(self, error: BaseException) -> OutOfMemory | None:
        return recognise(error, self.gauge.used_share, HostGauge().used_share)

    def note(self, decision: Decision, failed: int, found: OutOfMemory, where: str) -> None:
        self.decider.note(decision, failed, found, where, self.work.steps)

    def part_done(self, run: Any) -> None:
        if not self.work.watched:
            self.sizer.clean_part(run, self._grow)

    def batch_done(self, run: Any) -> None:
        self.work.done(run, self._grow)

    def report(self) -> dict[str, Any]:
        line = self.sizer.peaks.under(None).line()
        return {
            "steps": self.work.steps,
            "microbatch": self.sizer.size,
            "recoveries": list(self.decider.events),
            "peakLine": None
            if line is None
            else {"baseBytes": int(line[0]), "bytesPerSample": int(line[1])},
            "source": "measured",
        }

    def _grow(self, size: int, why: str) -> None:
        """Decided here, because no supervisor is there to do it."""
        self.decider.note_growth(self.sizer.size, size, why, self.work.steps)
        self.decider.report_rung("grow-back", f"{why}: {self.sizer.size} becomes {size}.")
        self.sizer.grow(size)
