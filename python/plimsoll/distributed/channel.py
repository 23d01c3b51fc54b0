"""How ranks speak out of band: through the store that torch.distributed was started with.

No collective is used, so a rank that fails never leaves another inside one. Each rank writes one
word a round; a verdict is the same function of the same words on every rank.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, NamedTuple

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
