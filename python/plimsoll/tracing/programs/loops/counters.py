"""Numbers that a `while` of the program counts up by one, led past turns that are alike.

`while True: ... step += 1; if step > 600_000: break` says nowhere how many turns there are. A turn goes from one
count to the next. Which numbers matter is known from what the program holds the number against: the largest of
these is taken as the last.
"""

from __future__ import annotations

from ..watch import Watch
from .conditions import Conditions
from .patience import Patience
from .turns import Begin, Turn, goes_on_alike


class Counter:
    def __init__(self, first: int, watch: Watch, patience: Patience) -> None:
        """At the end of the first turn, of which nothing is known."""
        # What the program has now.
        self.number = first + 1
        self._watch = watch
        self.patience = patience
        self._conditions = Conditions()
        self._conditions.ran(first)
        self._begin = Begin(watch)
        self._done = 0
        self._turn: Turn | None = None

    def looked(self, value: int, goal: int, modulo: int) -> None:
        self._conditions.looked(self.number, value, goal, modulo)

    def counted(self) -> int:
        """The number of the next turn that is run, at the end of one."""
        turn = self._begin.turn(self._watch)
        self._done += 1
        self._conditions.ran(self.number)
        following = self._following(turn)
        if following > self.number + 1:
            self._watch.leaves_out()
        self.number, self._turn = following, turn
        self._begin = Begin(self._watch)
        return following

    def _following(self, turn: Turn) -> int:
        last, after = self._conditions.last(), self.number + 1
        places = self._conditions.next_after(self.number)
        if last > self.number:
            # A loop that ends there does not come to what would be later.
            places += self._conditions.between(last, turn.ops)
            places = [place for place in places if self.number < place <= last + 1]
        if not places:
            return after
        turns = max(last, *places) - self.number
        alike = goes_on_alike(self._done, self._turn, turn, turns)
        alike = alike or self.patience.turn_ends(turn.ops, turns)
        return min(places) if alike else after
