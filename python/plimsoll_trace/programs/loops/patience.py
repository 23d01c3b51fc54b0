"""Loops whose turns differ, or hold on to more each time: they are led to their end before the program is ended.

None of their turns is left out for being like another. A program that shows nothing new for long is ended, though,
and then what follows such a loop would never be seen: a last evaluation, often with a larger batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..watch import Watch
from .batch_loops import BatchLoop

# Only a loop that took so many ops itself: not one inside of the step at which the program would be ended.
_LEAST_OPS = 20_000
# A loop that took too long once is run for so many turns the next time.
_LEAST_TURNS = 3

_NOTE = (
    "The turns of a loop ({}) differ, or hold on to more each time; after {:,} of them the next ones were left out, "
    "so that what follows is counted."
)


class Patience:
    """Of one time that a loop is run."""

    def __init__(self, loop: str, watch: Watch, before: Patience | None = None) -> None:
        self._loop = loop
        self._watch = watch
        self._start = watch.observer.ops
        self._backwards = watch.backwards
        self._turns = 0
        self.over: bool = False
        self._known = before is not None and before.over
        # What is held after half of the turns, or more; before the first one, what was there before the loop.
        self._half = (0, watch.observer.ledger.live_bytes)

    def turn_ends(self, taken: int, left: int | None = None) -> bool:
        """After a turn of so many ops: whether the next ones are left out; left: how many, where that is known."""
        self._turns += 1
        if self.over:
            return True
        self.over = self._ends(taken)
        if self.over:
            self._watch.leaves_out()
            self._watch.observer.notes.add(_NOTE.format(self._loop, self._turns))
            self._watch.more_bytes += self._grown() * (self._turns if left is None else left)
        elif self._turns & (self._turns - 1) == 0:
            self._half = (self._turns, self._watch.observer.ledger.live_bytes)
        return self.over

    def _ends(self, taken: int) -> bool:
        if taken <= 0:
            return False
        if self._known and self._turns >= _LEAST_TURNS:
            return True
        long = self._watch.observer.ops - self._start >= _LEAST_OPS
        # What the first turn does may not come again, such as samples that are drawn at step 0.
        next_turn = taken if self._turns > 1 else 0
        return long and self._watch.would_end(next_turn, self._watch.backwards > self._backwards)

    def _grown(self) -> int:
        """What a turn of late held on to."""
        turns, held = self._half
        grown = self._watch.observer.ledger.live_bytes - held
        return max(0, grown) // max(1, self._turns - turns)


class Running:
    """A loop of the program that counts nothing: it goes on, or ends early."""

    def __init__(self, loop: str, watch: Watch, before: Running | None) -> None:
        self._watch = watch
        self._ops = watch.observer.ops
        self._began = False
        self.patience: Patience = Patience(loop, watch, before.patience if before else None)

    def goes_on(self, left: int | None = None) -> bool:
        """Before each turn."""
        ops = self._watch.observer.ops
        taken, self._ops = ops - self._ops, ops
        began, self._began = self._began, True
        return not (began and self.patience.turn_ends(taken, left))


class Items:
    """What a `for` of the program goes through, other than a range. It holds no item while the body runs."""

    def __init__(self, given: Any, running: Running, loop: BatchLoop) -> None:
        self._items = iter(given)
        self._running = running
        self._loop = loop
        self._listed = given if isinstance(given, (list, tuple)) else ()
        self._done = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        left = len(self._listed) - self._done if self._listed else None
        if not self._running.goes_on(left):
            return self._last()
        self._done += 1
        with self._loop.asking():
            return next(self._items)

    def _last(self) -> Any:
        """The last of a list, once: of stages it is often the largest."""
        if self._done >= len(self._listed):
            raise StopIteration
        self._done = len(self._listed)
        return self._listed[-1]
