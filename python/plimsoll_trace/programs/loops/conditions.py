"""Where a program looks at the number of a loop: at the numbers that meet it, it may do something else."""

from __future__ import annotations

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
