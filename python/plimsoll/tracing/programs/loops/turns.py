"""Which turns of a loop over numbers are run.

`for step in range(10_000)` trains for hours; what a program does after it would never be seen. Once two
turns in a row asked for the same, the next ones are left out, up to those that may differ: where the
program compares the number, or takes it modulo another; a few in between; and the last. Loops that are
cheap are run as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from ..watch import Watch
from .conditions import Conditions
from .patience import Patience

# Turns that are run before any is left out, by the ops of one. The optimizer's state is there after the first; what
# the allocator holds settles with the next ones, so that more are run where they are cheap.
_LEAST_TURNS = ((1_000, 6), (4_000, 4))
_LEAST_OF_LONG_TURNS = 3
# A loop that takes fewer ops than this is run as a whole.
_CHEAP_OPS = 12_000
# A loop that holds on to more than this in all is run as a whole.
_MAX_GROWTH_BYTES = 2 * 2**20
_loops = count()


class Turns:
    """A range in a `for` of the program."""

    def __init__(self, numbers: range, watch: Watch, patience: Patience | None) -> None:
        self._numbers = numbers
        self._watch = watch
        self.patience = patience
        self._conditions = Conditions()
        self._number = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numbers, name)

    def __iter__(self) -> Iterator[int]:
        numbers, done, last = self._numbers, 0, None
        at, loop = 0, f"t{next(_loops)}"
        while at < len(numbers):
            self._number = numbers[at]
            if last is not None and last.trains:
                self._watch.observer.ledger.mark(f"turn:{loop}")
            begin = Begin(self._watch)
            yield self._number
            done += 1
            self._conditions.ran(self._number)
            turn = begin.turn(self._watch)
            if goes_on_alike(done, last, turn, len(numbers)):
                left_out = self._next_of_interest(at, turn) - at - 1
                if left_out > 0:
                    # A real run has so many turns here that ask for what this one did.
                    self._watch.observer.ledger.mark(f"left-out:{loop}:{left_out}:1")
                at += left_out + 1
                self._watch.leaves_out()
            elif self.patience and self.patience.turn_ends(turn.ops, len(numbers) - at - 1):
                at = self._next_of_interest(at, turn)
            else:
                at += 1
            last = turn

    def looked(self, value: int, goal: int, modulo: int) -> None:
        self._conditions.looked(self._number, value, goal, modulo)

    def _next_of_interest(self, at: int, turn: Turn) -> int:
        numbers = self._numbers
        last = len(numbers) - 1
        places = [last] if at < last else [last + 1]
        places += self._conditions.between(last, turn.ops)
        if numbers.step == 1:
            places += [n - numbers.start for n in self._conditions.next_after(self._number)]
        return min(place for place in places if place > at)


class Turn:
    def __init__(self, trains: bool, ops: int, grown: int, asked: int) -> None:
        self.trains = trains
        self.ops = ops
        self.grown = grown
        self.asked = asked


class Begin:
    def __init__(self, watch: Watch) -> None:
        ledger = watch.observer.ledger
        self._event = len(ledger.events)
        self._live = ledger.live_bytes
        self._ops = watch.observer.ops
        self._trained = watch.optimizer_steps + watch.backwards

    def turn(self, watch: Watch) -> Turn:
        ledger = watch.observer.ledger
        # Backward passes alone: parts of a batch whose gradients are added up.
        trains = watch.optimizer_steps + watch.backwards > self._trained
        asked = _asked(ledger.events, self._event) if trains else 0
        return Turn(trains, watch.observer.ops - self._ops, ledger.live_bytes - self._live, asked)


def _asked(events: list, begin: int) -> int:
    """One number for all that a turn asked for and gave back, in order."""
    own: dict[int, int] = {}
    found: list[Any] = []
    for event in events[begin:]:
        kind = event[0]
        if kind == "a":
            own[event[1]] = len(own)
            found.append(event[2])
        elif kind == "f":
            found.append((own.get(event[1], -1),))
        elif kind == "o":
            found.append((event[1], event[2]))
    return hash(tuple(found))


def _least_turns(ops: int) -> int:
    return next((turns for most, turns in _LEAST_TURNS if ops < most), _LEAST_OF_LONG_TURNS)


def goes_on_alike(done: int, last: Turn | None, turn: Turn, turns: int) -> bool:
    """Whether, after so many turns, the next ones of so many in all would ask for the same."""
    return (
        done >= _least_turns(turn.ops)
        and last is not None
        and turn.trains
        and last.trains
        and turn.asked == last.asked
        and turn.grown >= 0
        and turn.grown * turns <= _MAX_GROWTH_BYTES
        and turn.ops * turns > _CHEAP_OPS
    )
