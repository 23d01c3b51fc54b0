"""Asks who decides: the supervisor where it answers in time, else the rule here. Keeps what was decided."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from ...bridge import connection
from ...memory.clean_up import give_back_caches
from ...memory.gauge import HostGauge
from ...memory.out_of_memory import OutOfMemory, recognise
from .ladder import GIVE_BACK, SMALLER, Decision, Failed, decide
from .sizer import Ahead, Sizer, keep_below
from .sizes import Measured

log = logging.getLogger("plimsoll")

EVENTS_KEPT = 100
# Waits for other processes are 0.5, 1, 1.5 ... and then 4 s long.
LONGEST_WAIT_SECONDS = 4.0
SHORT_WAITS = 8
# A card of which others hold more than this is full because of them; a context alone takes less.
OTHERS_SHARE = 0.1
# One batch fails no more often than this.
MAX_FAILURES = 100
# It may say "again, as it was" this often before the rule here takes over.
SAME_AGAIN = 3
# A size that failed this often in one batch is not going to fit; each failure costs the work of a microbatch.
MAX_ATTEMPTS = 24


class Decider:
    def __init__(
        self, gauge: Any, sizer: Sizer, bridge: Any, patience: float, who: str = ""
    ) -> None:
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._gauge = gauge
        self._sizer = sizer
        self._bridge = bridge
        self._who = who
        self._max_waits = SHORT_WAITS + int(patience / LONGEST_WAIT_SECONDS)

    def decide(
        self,
        run: Any,
        failed: int,
        found: OutOfMemory,
        where: str,
        hooks: list[str],
        number: int | None,
    ) -> Decision:
        """`number` is the round of the ranks, where there are several."""
        try:
            return self._ask(run, failed, found, where, hooks, number)
        except (MemoryError, RuntimeError, OSError) as trouble:
            # So full that not even a device can be read, nor a line sent: by halves, which takes nothing.
            log.debug("plimsoll: could not look at memory: %s", trouble)
            return self._bounded(
                run, decide(Failed(failed, run.attempt, True, hooks=hooks), Measured())
            )

    def _ask(
        self,
        run: Any,
        failed: int,
        found: OutOfMemory,
        where: str,
        hooks: list[str],
        number: int | None,
    ) -> Decision:
        peak = self._gauge.peak_bytes()
        what = Failed(
            failed,
            self._attempts(run, failed),
            run.failures > 1,
            self.others_hold() and run.failures < self._max_waits,
            hooks,
            found.asked_bytes,
            peak,
            self._gauge.cached_bytes(),
        )
        own = self._bounded(run, decide(what, self._sizer.measured()))
        if self._bridge is None:
            return own
        if own.action == "wait":
            if run.attempt == 2:
                self._bridge.report_rung(own.rung, own.why)
            return own
        was_there = self._bridge.alive
        declared = ["microbatch", *hooks]
        answer = self._bridge.ask_about(
            found, where, failed, run.count, peak, number, self._who, declared
        )
        if answer is not None:
            return self._as_answered(answer, own, failed, run)
        if own.action == "retry" and not (was_there and self._bridge.alive):
            # The next supervisor writes it into the report; one that was only slow writes its own.
            self._bridge.report_rung(own.rung, own.why)
        return own

    def ask_ahead(self, ahead: Ahead, batch: int, size: int, why: str) -> tuple[int, str]:
        """Before a step that will not fit: the supervisor's size, or the own one where it does not answer."""
        answer = None
        if self._bridge is not None:
            answer = self._bridge.ask_ahead(ahead, batch, self._who)
        if answer is None:
            self.report_rung(SMALLER, f"{why}: {size}.")
            return size, why
        told = answer.get("microbatch")
        return (told if isinstance(told, int) and told > 0 else size), str(answer.get("why", why))

    def _as_answered(
        self, answer: dict[str, Any], own: Decision, failed: int, run: Any
    ) -> Decision:
        size = answer.get("microbatch")
        size = size if isinstance(size, int) and 0 < size <= failed else own.microbatch
        action = str(answer.get("action"))
        retry = action in ("retry", "wait") and run.failures <= MAX_FAILURES
        if retry and size == failed and run.attempt > SAME_AGAIN:
            # A supervisor that changes nothing would have us fail for ever.
            return own
        return Decision(
            action if retry else "raise",
            size,
            str(answer.get("rung") or "none"),
            str(answer.get("why", "")),
        )

    def _attempts(self, run: Any, failed: int) -> int:
        """How often this size has failed: in a row, with all that was done in this batch, or in steps just before.

        One sample cannot be less: it counts in a row only.
        """
        if failed <= 1:
            return int(run.attempt)
        return int(run.attempt + run.lost[failed] + self._sizer.failed_lately(failed))

    def _bounded(self, run: Any, decision: Decision) -> Decision:
        if decision.action == "raise" or (
            run.attempt < MAX_ATTEMPTS and run.failures <= MAX_FAILURES
        ):
            return decision
        return Decision(
            "raise", decision.microbatch, "none", f"{run.failures} attempts at one batch failed"
        )

    def others_hold(self) -> bool:
        """Whether the device is full because of other processes."""
        held = getattr(self._gauge, "others_bytes", None)
        return held is not None and held() > OTHERS_SHARE * self._gauge.total_bytes()

    def note(
        self, decision: Decision, failed: int, found: OutOfMemory, where: str, step: int
    ) -> None:
        log.warning(
            "plimsoll: out of memory (%s) in %s of step %d with %d samples: %s, %s: %s",
            found.kind, where, step + 1, failed, decision.action, decision.rung, decision.why,
        )  # fmt: skip
        self.events.append(
            {
                "step": step,
                "phase": where,
                "kind": found.kind,
                "askedBytes": found.asked_bytes,
                "action": decision.action,
                "rung": decision.rung,
                "from": failed,
                "to": decision.microbatch,
                "why": decision.why,
            }
        )

    def note_growth(self, before: int | None, after: int, why: str, step: int) -> None:
        log.info("plimsoll: microbatch grows from %s to %d: %s", before, after, why)
        self.events.append(
            {"step": step, "rung": "grow-back", "from": before, "to": after, "why": why}
        )

    def note_smaller(self, before: int | None, after: int, why: str, step: int) -> None:
        log.info("plimsoll: microbatch shrinks from %s to %d: %s", before, after, why)
        self.events.append(
            {"step": step, "rung": "smaller-microbatch", "from": before, "to": after, "why": why}
        )

    def note_given_back(self, why: str, step: int) -> None:
        log.info("plimsoll: memory that the heap keeps is given back: %s", why)
        self.events.append({"step": step, "rung": GIVE_BACK, "why": why})
        self.report_rung(GIVE_BACK, f"{why}: the heap gives back what it keeps.")

    def report_rung(self, rung: str, why: str) -> None:
        """Into the supervisor's report, where it did not decide this itself."""
        if self._bridge is not None:
            self._bridge.report_rung(rung, why)


def wait_seconds(attempt: int) -> float:
    return min(LONGEST_WAIT_SECONDS, 0.5 * attempt)


# How a step, or a function, is kept within memory: what it uses, its sizes, who decides, who is told.


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
