"""Numbers that a program draws from some, without a seed: the largest comes second.

A training at several sizes draws that of its images every few steps: `side = random.choice(SIDES)`. Each run draws
others, and after some hundred steps all have come. Few draws are seen here, and the largest size takes the most memory.
At each place of the program that draws it comes second, after one that is drawn as usual: blocks of a smaller one are
then there, which do not fit, as in most runs. A program with a seed draws what it draws in a real run.
"""

from __future__ import annotations

import random
import sys
from math import prod
from typing import Any

from ...standins.patches import Patches
from ..loops.rewritten import is_the_programs

# Sizes are chosen from so many; larger lists hold samples.
_MAX_CHOICES = 64
_SECOND = 2


def install(patches: Patches) -> None:
    calls = Calls()

    def seed(*args: Any, **kwargs: Any) -> None:
        given = args[0] if args else kwargs.get("a")
        # Data loaders seed their workers.
        own = sys._getframe(1).f_globals.get("__name__", "").startswith("plimsoll.")
        calls.are_seeded |= given is not None and not own
        set_seed(*args, **kwargs)

    def choice(seq: Any) -> Any:
        drawn = choose(seq)
        return largest_of(seq, drawn) if calls.draws_second(sys._getframe(1)) else drawn

    def randint(a: Any, b: Any) -> Any:
        drawn = draw_between(a, b)
        return b if calls.draws_second(sys._getframe(1)) else drawn

    set_seed = patches.set(random, "seed", seed)
    choose = patches.set(random, "choice", choice)
    draw_between = patches.set(random, "randint", randint)


class Calls:
    """Calls in the files of the program."""

    def __init__(self) -> None:
        self.are_seeded = False
        # By code and place in it. Code is named by its number, since to hash it takes longer than to draw.
        self._draws: dict[tuple[int, int], int] = {}

    def draws_second(self, frame: Any) -> bool:
        """Whether a number is drawn for the second time at a place of a program without a seed."""
        if self.are_seeded:
            return False
        place = (id(frame.f_code), frame.f_lasti)
        draws = self._draws.get(place, 0)
        if draws == _SECOND:
            return False
        is_first = draws == 0
        counts = is_first and is_the_programs(frame.f_code.co_filename)
        self._draws[place] = 1 if counts else _SECOND
        return not is_first


def largest_of(options: Any, drawn: Any) -> Any:
    """The largest of some sizes, or pairs of them; what was drawn, where these are no sizes."""
    if not isinstance(options, (list, tuple, range)) or not 1 < len(options) <= _MAX_CHOICES:
        return drawn
    sizes = [_size_of(option) for option in options]
    if any(size is None for size in sizes):
        return drawn
    return options[max(range(len(sizes)), key=sizes.__getitem__)]


def _size_of(option: Any) -> int | None:
    numbers = option if isinstance(option, (list, tuple)) and option else (option,)
    if any(type(number) is not int or number < 1 for number in numbers):
        return None
    return prod(numbers)
