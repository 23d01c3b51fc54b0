"""Asks who decides: the supervisor where it answers in time, else the rule here. Keeps what was decided."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from ...memory.out_of_memory import OutOfMemory
from .keep_below import Ahead
from .ladder import GIVE_BACK, SMALLER, Decision, Failed, decide
from .sizer import Sizer
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
