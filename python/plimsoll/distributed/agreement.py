"""Ranks agree on how a round went before any of them enters a collective."""

from __future__ import annotations

import itertools
import logging
import time
from datetime import timedelta
from typing import Any, NamedTuple

from ..bridge import connection
from ..failure import JOB_FAILED, Failure

log = logging.getLogger("plimsoll")

# The supervisor's verdict is waited for this long after all have spoken; then the words themselves count.
VERDICT_SECONDS = 2.0
STORE_TIMEOUT = timedelta(seconds=60)

# A supervisor knows rounds of a program, not of its steps: each step has numbers of its own.
ROUNDS_A_STEP = 10**9

_groups = itertools.count()


# How ranks speak out of band: through the store that torch.distributed was started with.
#
# No collective is used, so a rank that fails never leaves another inside one. Each rank writes one
# word a round; a verdict is the same function of the same words on every rank.

OK = "ok"
FAILED = "failed"
GONE = "gone"
# Words older than this many rounds are deleted; a slow rank is never that far behind.
ROUNDS_KEPT = 64
POLL_SECONDS = 0.002
SLOWEST_POLL = 0.1


class Word(NamedTuple):
    state: str
    microbatch: int
    detail: str = ""

    def text(self) -> str:
        return f"{self.state} {self.microbatch} {self.detail}"


class StoreChannel:
    """Words of all ranks by round, in a store of torch.distributed."""

    def __init__(self, store: Any, name: str, rank: int, world: int) -> None:
        self._store = store
        self._name = name
        self._rank = rank
        self._world = world

    def say(self, number: int, word: Word) -> None:
        self._store.set(self._key(number, self._rank), word.text())
        if number >= ROUNDS_KEPT:
            self._forget(number - ROUNDS_KEPT)

    def leave(self, why: str) -> None:
        """Said once by a rank that gives up: those who wait for it then stop waiting."""
        self._store.set(f"{self._name}/gone", f"{self._rank} {why}"[:300])

    def gone(self) -> str | None:
        key = f"{self._name}/gone"
        return self._store.get(key).decode() if self._store.check([key]) else None

    def all_said(self, number: int) -> bool:
        return self._store.check([self._key(number, rank) for rank in range(self._world)])

    def words(self, number: int) -> list[Word]:
        return [_read(self._store.get(self._key(number, rank))) for rank in range(self._world)]

    def wait(self, number: int, seconds: float) -> bool:
        """Until all have spoken, or one is gone, or the time is over; True when all have spoken."""
        until = time.monotonic() + seconds
        pause = POLL_SECONDS
        while not self.all_said(number):
            if time.monotonic() > until or self.gone() is not None:
                return self.all_said(number)
            time.sleep(pause)
            pause = min(SLOWEST_POLL, pause * 1.5)
        return True

    def _key(self, number: int, rank: int) -> str:
        return f"{self._name}/{number}/{rank}"

    def _forget(self, number: int) -> None:
        try:
            self._store.delete_key(self._key(number, self._rank))
        except (RuntimeError, NotImplementedError):
            # A store of files cannot delete; it only grows.
            pass


def _read(text: bytes) -> Word:
    state, size, *detail = text.decode().split(" ", 2)
    return Word(state, int(size), detail[0] if detail else "")


def default_store(timeout: timedelta) -> Any:
    """The store of this job, with a timeout of its own so that no call waits for minutes."""
    from torch.distributed import PrefixStore
    from torch.distributed.distributed_c10d import _get_default_store

    store = PrefixStore("plimsoll", _get_default_store())
    try:
        store.set_timeout(timeout)
    except RuntimeError:
        # Some stores have a fixed one; keys are only read once they are known to be there.
        pass
    return store


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
