"""Loops of the program over the batches of a loader, with what they count.

A loader leaves out batches that are alike. What a program does seldom, `if step % 500 == 0: evaluate()`, would
be left out with them: the first batches do not come to it. So the numbers that such a loop counts, and what the
program holds them against, are known here: before a loader ends, the batches are run at which the program may do
something else, with the numbers of a real run.
"""

from __future__ import annotations

from typing import Any

from ..watch import Watch

# Where a program looks at the number of a loop: at the numbers that meet it, it may do something else.

# Each condition of the program is met so many times.
_MEETINGS = 2
# Values that do not go with the number make a new one each turn.
_MAX_CONDITIONS = 24
# So many of the first turns are remembered.
_FIRST = 8
# Turns in between, where one takes fewer ops than this.
_BETWEEN = 4
_CHEAP_TURN_OPS = 2_000


class Condition:
    """A place in a loop's body that looks at its number: held against another, or taken modulo another."""

    def __init__(self, offset: int, goal: int, modulo: int) -> None:
        # The value that is looked at is the number and this.
        self.goal = goal - offset
        self.modulo = modulo
        self._met = 0

    def ran(self, number: int) -> None:
        apart = number - self.goal
        self._met += apart % self.modulo == 0 if self.modulo else abs(apart) <= 1

    def next_after(self, number: int, meetings: int | None = None) -> int | None:
        """The next number that meets it, or is beside the one that does, if it was not met so many times."""
        if self.modulo:
            ahead = (self.goal - number - 1) % self.modulo
            return number + 1 + ahead if self._met < _MEETINGS else None
        if meetings is not None and self._met >= meetings:
            return None
        return max(self.goal - 1, number + 1) if number <= self.goal else None


class Conditions:
    """All of a loop."""

    def __init__(self) -> None:
        self._all: dict[tuple[int, int, int], Condition] = {}
        # Turns that were run before a condition was known count for it, too.
        self._first: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def looked(self, number: int, value: int, goal: int, modulo: int) -> None:
        """The body looked at a value that goes with the number."""
        key = (value - number, goal, modulo)
        if len(self._all) < _MAX_CONDITIONS and key not in self._all:
            self._all[key] = Condition(*key)
            for earlier in self._first:
                self._all[key].ran(earlier)

    def ran(self, number: int) -> None:
        if len(self._first) < _FIRST:
            self._first.append(number)
        for condition in self._all.values():
            condition.ran(number)

    def next_after(self, number: int, meetings: int | None = None) -> list[int]:
        found = (condition.next_after(number, meetings) for condition in self._all.values())
        return [place for place in found if place is not None]

    def between(self, last: int, ops: int) -> list[int]:
        """A few numbers up to the last one, where a turn takes few ops, at which the program does nothing seldom."""
        if ops >= _CHEAP_TURN_OPS:
            return []
        return [self._beside(last * part // (_BETWEEN + 1)) for part in range(1, _BETWEEN + 1)]

    def _beside(self, number: int) -> int:
        met = any(c.modulo > 1 and (number - c.goal) % c.modulo == 0 for c in self._all.values())
        return number + 1 if met else number

    def last(self) -> int:
        """The largest number that any is held against: where a loop ends that says so nowhere else."""
        return max((c.goal for c in self._all.values() if not c.modulo), default=0)


# A number is held against one goal so many times, with the turns beside it.
_MEETINGS_OF_A_GOAL = 6


class Number:
    """One number that a loop counts: of its batches, of its steps."""

    def __init__(self) -> None:
        # At the beginning of the turn; unknown before the first.
        self.value: int | None = None
        self._ahead = 0
        # The turn and the value when it began, or began again.
        self._first = (0, 0)
        self._turn = 0
        self._conditions = Conditions()
        self._ran: int | None = None

    def begins_turn(self, turn: int, value: int) -> int:
        """At the beginning of a turn: the number as it would be in a real run."""
        if self.value is None or value < self.value:
            self._ahead, self._first = 0, (turn, value)
        value, self._ahead = value + self._ahead, 0
        self.value, self._turn = value, turn
        return value

    def ends_turn(self) -> None:
        if self.value is not None and self.value != self._ran:
            self._conditions.ran(self.value)
            self._ran = self.value

    def looked(self, value: int, goal: int, modulo: int) -> None:
        if self.value is not None:
            self._conditions.looked(self.value, value, goal, modulo)

    def is_held_against(self) -> bool:
        return bool(self._conditions)

    def period(self) -> int:
        """The turns in which it goes up by one; 0 where it does not go up evenly."""
        if self.value is None:
            return 0
        turns, counted = self._turn - self._first[0], self.value - self._first[1]
        period = round(turns / counted) if counted > 0 else 0
        return period if period and abs(turns - counted * period) < period else 0

    def turns_ahead(self) -> list[int]:
        """How many turns lie between this one and those at which the program may do something else."""
        period = self.period()
        if not period or self.value is None:
            return []
        places = self._conditions.next_after(self.value, _MEETINGS_OF_A_GOAL)
        return [(place - self.value - 1) * period for place in places]

    def leads(self, turns: int) -> None:
        if period := self.period():
            self._ahead += turns // period


class BatchLoop:
    """A `for` of the program, each time that it is run."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.numbers: dict[str, Number] = {}
        self._turn = 0
        self._ops = watch.observer.ops
        # Turns that are run in any case.
        self._runs = 0
        self._decided = False
        # The loops that asked when this one began to.
        self._around: list[Any] = []

    def number(self, name: str) -> Number:
        return self.numbers.setdefault(name, Number())

    def asking(self) -> BatchLoop:
        """While the loop asks for its next item: `with loop.asking(): ...`. Loops may have millions of them."""
        return self

    def __enter__(self) -> None:
        for number in self.numbers.values():
            number.ends_turn()
        self._turn += 1
        self._decided = False
        self._around.append(self._watch.batch_loop)
        self._watch.batch_loop = self

    def __exit__(self, *_: object) -> None:
        self._watch.batch_loop = self._around.pop()
        self._ops = self._watch.observer.ops

    def begins_turn(self, name: str, value: int) -> int:
        return self.number(name).begins_turn(self._turn, value)

    def leads(self, left: int) -> int | None:
        """Of so many batches that are left: how many are left out before the next; None for all of them."""
        skipped = self.seldom(left)
        if skipped:
            self.leaves_out(skipped)
            self._watch.leaves_out()
        return skipped

    def seldom(self, left: int) -> int | None:
        """How many of the batches that are left come before one at which the program may do something else."""
        if self._decided:
            # By another loader that the loop goes through as well.
            return 0
        self._decided = True
        if self._runs > 0:
            self._runs -= 1
            return 0
        if self._watch.would_end(self._watch.observer.ops - self._ops):
            return None
        ahead = [n for number in self.numbers.values() for n in number.turns_ahead()]
        places = [turns for turns in ahead if 0 <= turns < left]
        if not places:
            return None
        # Numbers that go up once in several turns do so in the same of them.
        period = max(number.period() for number in self.numbers.values())
        self._runs = 2 * period - 1 if period > 1 else 0
        return min(places) // period * period

    def stops_before(self) -> None:
        """Another batch is run before the one that `seldom` named: none need follow it."""
        self._runs = 0

    def leaves_out(self, turns: int) -> None:
        self._turn += turns
        for number in self.numbers.values():
            number.leads(turns)


class Numbered:
    """`enumerate` over batches. As Python's own, it holds an item until the next one is there."""

    def __init__(self, given: Any, start: int, name: str, loop: BatchLoop) -> None:
        self._items = iter(given)
        self._next = start
        self._name = name
        self._loop = loop
        self._held: Any = None

    def __iter__(self) -> Numbered:
        return self

    def __next__(self) -> tuple[int, Any]:
        self._held = item = next(self._items)
        number = self._loop.begins_turn(self._name, self._next)
        self._next = number + 1
        return number, item
