"""Ranks agree on how a round went before any of them enters a collective."""

from __future__ import annotations

import itertools
import logging
from datetime import timedelta
from typing import Any, NamedTuple

from ..bridge import connection
from ..failure import JOB_FAILED, Failure
from .channel import FAILED, OK, StoreChannel, Word, default_store

log = logging.getLogger("plimsoll")

# The supervisor's verdict is waited for this long after all have spoken; then the words themselves count.
VERDICT_SECONDS = 2.0
STORE_TIMEOUT = timedelta(seconds=60)

# A supervisor knows rounds of a program, not of its steps: each step has numbers of its own.
ROUNDS_A_STEP = 10**9

_groups = itertools.count()


class Verdict(NamedTuple):
    ok: bool
    microbatch: int
    detail: frozenset[Any]


class Agreement:
    """Rounds of words. What all ranks said decides; a supervisor is heard first where there is one."""

    def __init__(self, rank: int, world: int, channel: StoreChannel | None = None) -> None:
        self.rank = rank
        self.world = world
        self.round = 0
        # All ranks make their steps in the same order, so the same number means the same step.
        number = next(_groups)
        self._first = number * ROUNDS_A_STEP
        self._channel = channel or StoreChannel(
            default_store(STORE_TIMEOUT), f"step{number}", rank, world
        )
        self._gone = False

    @property
    def reported_round(self) -> int:
        """The number of this round as the supervisor hears it."""
        return self._first + self.round

    def failed(self, microbatch: int) -> None:
        """This rank ran out of memory in this round, and goes on with a smaller size in the next."""
        self._speak(Word(FAILED, microbatch), ok=False)
        self.round += 1

    def finished(self, microbatch: int, detail: str, patience: float) -> Verdict:
        """This rank is done; returns when all are, however many rounds others needed."""
        smallest = microbatch
        while True:
            self._speak(Word(OK, microbatch, detail), ok=True)
            verdict = self._verdict(patience)
            self.round += 1
            smallest = min(smallest, verdict.microbatch) if verdict.microbatch > 0 else smallest
            if verdict.ok:
                return Verdict(True, smallest, verdict.detail)

    def leave(self, why: str) -> None:
        if not self._gone:
            self._gone = True
            try:
                self._channel.leave(why)
            except RuntimeError as error:
                log.debug("plimsoll: the store is gone: %s", error)

    def _speak(self, word: Word, ok: bool) -> None:
        self._channel.say(self.round, word)
        bridge = connection.current()
        if bridge is not None:
            bridge.send(
                {"type": "barrier", "round": self.reported_round, "rank": self.rank, "ok": ok}
            )

    def _verdict(self, patience: float) -> Verdict:
        if not self._channel.wait(self.round, patience):
            gone = self._channel.gone()
            fact = (
                f"rank {gone} gave up" if gone else f"not all ranks finished within {patience:g} s"
            )
            raise Failure(
                "rank-gone",
                f"{fact}, so rank {self.rank} cannot go on",
                "see that rank's error; the run can restart from its last checkpoint",
                status=JOB_FAILED,
            )
        words = self._channel.words(self.round)
        failed = [word.microbatch for word in words if word.state == FAILED]
        own = Verdict(not failed, min(failed, default=0), frozenset(word.detail for word in words))
        return own if own.ok else self._heard(own)

    def _heard(self, own: Verdict) -> Verdict:
        """After a failure the supervisor may want another size; whether it failed is never in doubt."""
        bridge = connection.current()
        if bridge is None or not bridge.alive:
            return own
        answer = bridge.wait_for(("verdict", self.reported_round), VERDICT_SECONDS)
        size = answer.get("microbatch") if answer else None
        if answer is None:
            log.warning(
                "plimsoll: the supervisor did not answer within %g s; the ranks decided",
                VERDICT_SECONDS,
            )
        return own._replace(microbatch=size) if isinstance(size, int) and size > 0 else own
