"""Whether batches of different sizes still make the allocator hold more.

They are run for what each leaves to the next. That rises with the first ones and then no more: a detector held after
five batches all that it would ever hold, and the next twenty took half a minute. From there on only larger ones may
ask for more.
"""

from __future__ import annotations

from typing import Any

from ..reserved import Reserved

# So many batches in a row, and as many as there were before them.
_LEAST = 6
# Rises that together come to less than this part of what is held are none.
_SMALL = 1 / 200


class Settling:
    def __init__(self, ledger: Any, capacity: int) -> None:
        self._events = ledger.events
        self._reserved = Reserved(ledger.events, capacity)
        # Of batches that were not looked at yet: where their events begin and end, and whether they were only read.
        self._unseen: list[tuple[int, int, bool]] = []
        self._of = {False: _Rises(), True: _Rises()}

    def begins(self) -> int:
        """For `ran`, before a batch is run."""
        return len(self._events)

    def ran(self, began: int, reads: bool) -> None:
        self._unseen.append((began, len(self._events), reads))

    def is_settled(self, reads: bool) -> bool:
        """Whether batches like these have made it hold no more for long."""
        for began, ended, kind in self._unseen:
            before = self._reserved.peak_until(began)
            self._of[kind].add(before, self._reserved.peak_until(ended))
        self._unseen.clear()
        return self._of[reads].is_over()


class _Rises:
    """How much more was held after each batch than ever before."""

    def __init__(self) -> None:
        self._batches = self._quiet = self._risen = 0

    def add(self, before: int, after: int) -> None:
        self._batches += 1
        self._quiet += 1
        self._risen += after - before
        if self._risen > _SMALL * after:
            self._quiet = self._risen = 0

    def is_over(self) -> bool:
        return self._quiet >= max(_LEAST, self._batches / 2)
