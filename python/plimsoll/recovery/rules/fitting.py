"""How a step, or a function, is kept within memory: what it uses, its sizes, who decides, who is told."""

from __future__ import annotations

from typing import Any

from ...memory.gauge import HostGauge
from ...memory.out_of_memory import OutOfMemory, recognise
from .decider import Decider
from .ladder import Decision
from .sizer import Sizer
from .work import Work


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
        """A smaller size before a batch that would not fit, by what was measured."""
        size = self.sizer.foreseen(count)
        if size is not None:
            why = f"measured peaks say that {self.sizer.size} samples do not fit with what is held now"
            self.decider.note_smaller(self.sizer.size, size, why, self.work.steps)
            self.decider.report_rung("smaller-microbatch", f"{why}: {size}.")
            self.sizer.set(size)

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
