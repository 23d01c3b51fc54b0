"""Loops whose turns differ, or hold on to more each time: they are led to their end before the program is ended.

None of their turns is left out for being like another. A program that shows nothing new for long is ended, though,
and then what follows such a loop would never be seen: a last evaluation, often with a larger batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes.written import steps_of, write_steps
from ..watch import Watch
from .batch_loops import BatchLoop

# Only a loop that took so many ops itself: not one inside of the step at which the program would be ended.
_LEAST_OPS = 20_000
# A loop that took too long once is run for so many turns the next time.
_LEAST_TURNS = 3
# One more where turns were copied: of three turns after the first one it is known by how much they grow.
_LEAST_TURNS_TO_COPY = 4
# Copied turns of a loop come to so many events at most.
_MAX_COPIED_EVENTS = 1_000_000

_NOTE_ON_COPIES = (
    "The turns of a loop ({}) ask for more each time, by the same sizes; after {:,} of them the requests of the next "
    "{:,} were copied from the last ones."
)
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
        self._copies = _Copies(watch.observer)
        # Whether the turns that were left out are in the record.
        self.copied: bool = False
        self._least = _LEAST_TURNS_TO_COPY if before and before.copied else _LEAST_TURNS

    def turn_ends(self, taken: int, left: int | None = None, alike: bool = False) -> bool:
        """After a turn of so many ops: whether the next ones are left out; left: how many, where that is known.
        alike: nothing is known of that they would do otherwise than this one."""
        self._turns += 1
        self._copies.turn_ends()
        if self.over:
            return True
        self.over = self._ends(taken)
        if self.over:
            self._watch.leaves_out()
            reads = self._watch.backwards == self._backwards
            self.copied = bool(alike and left and reads and self._copies.write(left))
            if self.copied:
                note = _NOTE_ON_COPIES.format(self._loop, self._turns, left)
                self._watch.observer.notes.add(note)
                return True
            self._watch.observer.notes.add(_NOTE.format(self._loop, self._turns))
            self._watch.more_bytes += self._grown() * (self._turns if left is None else left)
        elif self._turns & (self._turns - 1) == 0:
            self._half = (self._turns, self._watch.observer.ledger.live_bytes)
        return self.over

    def _ends(self, taken: int) -> bool:
        if taken <= 0:
            return False
        if self._known and self._turns >= self._least:
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


class _Copies:
    """The requests of turns that are left out: each turn asks for what the one before it did, by the same sizes more.

    A text that is sampled by hand grows by a token each turn, and so does its cache. A turn may hold memory that the
    next one gives back, and nothing longer. The program goes on with what its last turn made, which lies from then on
    in what the last copied turn would have made.
    """

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        # Where turns begin and end among the events: the last three, and where the one before them begins.
        self._ends: list[int] = [len(observer.ledger.events)]

    def turn_ends(self) -> None:
        self._ends = [*self._ends[-3:], len(self._observer.ledger.events)]

    def write(self, turns: int) -> bool:
        """Puts so many turns into the record; False where they do not follow from the last three."""
        grows = self._grows()
        if grows is None:
            return False
        steps, by, held = grows
        if not steps or len(steps) * turns > _MAX_COPIED_EVENTS:
            return False
        begun, ledger = held, self._observer.ledger
        for _ in range(turns):
            steps = [
                (step[0], step[1] + more, *step[2:]) if more else step
                for step, more in zip(steps, by)
            ]
            held = write_steps(ledger, steps, held)
        self._observer.moved({ident: held[slot] for slot, ident in begun.items()})
        return True

    def _grows(self) -> tuple[list[tuple], list[int], dict[int, int]] | None:
        """The steps of the last turn, by how much each grows, and the allocations that the turn left."""
        if len(self._ends) < 4:
            return None
        events = self._observer.ledger.events
        first, second, third = (events[begin:end] for begin, end in zip(self._ends, self._ends[1:]))
        before, kept, last = _left_by(first), _left_by(second), _left_by(third)
        steps, earlier = steps_of(third, kept, last), steps_of(second, before, kept)
        if not steps or earlier is None or set(kept.values()) != set(last.values()):
            return None
        if [_form(step) for step in steps] != [_form(step) for step in earlier]:
            return None
        given_back = {step[1][1] for step in steps if step[0] == "f" and isinstance(step[1], tuple)}
        if given_back != set(kept.values()):
            return None
        sizes = [[step[1] for step in of if step[0] == "a"] for of in (earlier, steps)]
        oldest = [event[2] for event in first if event[0] == "a"]
        if len(oldest) != len(sizes[0]):
            return None
        growth = [new - old for old, new in zip(*sizes)]
        if [new - old for old, new in zip(oldest, sizes[0])] != growth or min(growth) < 0:
            return None
        rest = iter(growth)
        by = [next(rest) if step[0] == "a" else 0 for step in steps]
        return steps, by, {slot: ident for ident, slot in last.items()}


def _left_by(events: list[tuple]) -> dict[int, int]:
    """What a turn made and did not give back; the slot of each is the place of its request in the turn."""
    made = {event[1]: place for place, event in enumerate(e for e in events if e[0] == "a")}
    for event in events:
        if event[0] == "f":
            made.pop(event[1], None)
    return made


def _form(step: tuple) -> tuple:
    return (step[0], *step[2:]) if step[0] == "a" else step


class Running:
    """A loop of the program that counts nothing: it goes on, or ends early."""

    def __init__(self, loop: str, watch: Watch, before: Running | None) -> None:
        self._watch = watch
        self._ops = watch.observer.ops
        self._began = False
        self.patience: Patience = Patience(loop, watch, before.patience if before else None)

    def goes_on(self, left: int | None = None, alike: bool = False) -> bool:
        """Before each turn."""
        ops = self._watch.observer.ops
        taken, self._ops = ops - self._ops, ops
        began, self._began = self._began, True
        return not (began and self.patience.turn_ends(taken, left, alike))


class Items:
    """What a `for` of the program goes through, other than a range. It holds no item while the body runs."""

    def __init__(self, given: Any, running: Running, loop: BatchLoop) -> None:
        self._items = iter(given)
        self._running = running
        self._loop = loop
        self._listed = given if isinstance(given, (list, tuple)) else ()
        # A bar of progress goes through numbers: as a rule all turns do the same.
        shown = getattr(given, "iterable", None)
        self._numbers: range = shown if type(shown) is range else range(0)
        self._done = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        counted = self._listed or self._numbers
        left = len(counted) - self._done if counted else None
        if not self._running.goes_on(left, alike=bool(self._numbers)):
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
