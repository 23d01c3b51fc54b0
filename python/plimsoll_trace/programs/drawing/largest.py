"""Numbers that a program draws from some, without a seed: the largest comes second.

A training at several sizes draws that of its images every few steps: `side = random.choice(SIDES)`. Each run draws
others, and after some hundred steps all have come. Few draws are seen here, and the largest size takes the most memory.
At each place of the program that draws it comes second, after one that is drawn as usual: blocks of a smaller one are
then there, which do not fit, as in most runs. A program with a seed draws what it draws in a real run.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from math import prod
from typing import Any

from ...standins.patches import Patches
from ..loops.rewritten import is_the_programs

# Sizes are chosen from so many; larger lists hold samples.
_MAX_CHOICES = 64
_SECOND = 2


def install(patches: Patches) -> None:
    _install(patches, random, {"choice": _largest, "randint": _to, "randrange": _below})
    if (numpy := sys.modules.get("numpy")) is not None:
        _install(patches, numpy.random, {"choice": _largest, "randint": _below_in_arrays})


def _install(patches: Patches, module: Any, draws: dict[str, Callable[..., Any]]) -> None:
    """For functions that draw: with what finds the largest that each may draw, None where there is none."""
    calls = Calls()

    def seed(*args: Any, **kwargs: Any) -> None:
        given = next(iter((*args, *kwargs.values())), None)
        # Data loaders seed their workers.
        own = sys._getframe(1).f_globals.get("__name__", "").startswith("plimsoll_trace.")
        calls.are_seeded |= given is not None and not own
        set_seed(*args, **kwargs)

    set_seed = patches.set(module, "seed", seed)
    for name, largest in draws.items():
        patches.set(module, name, _drawing(getattr(module, name), largest, calls))


def _drawing(draw: Callable[..., Any], largest: Callable[..., Any], calls: Calls) -> Any:
    def drawn(*args: Any, **kwargs: Any) -> Any:
        value = draw(*args, **kwargs)
        # With names come the counts of arrays, and chances.
        if kwargs or not calls.draws_second(sys._getframe(1)):
            return value
        found = largest(*args)
        if found is None:
            return value
        # Numbers of NumPy have types of their own.
        return found if isinstance(value, (int, tuple, list)) else type(value)(found)

    return drawn


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


def _largest(options: Any, *others: Any) -> Any:
    """The largest of some sizes, or of pairs such as (height, width); None where they are not sizes."""
    listed = isinstance(options, (list, tuple, range)) and not others
    if not listed or not 1 < len(options) <= _MAX_CHOICES:
        return None
    return max(options, key=_size_of) if all(map(_size_of, options)) else None


def _size_of(option: Any) -> int:
    """A number as it is, or the product of several; 0 where it is not a size."""
    numbers = option if isinstance(option, (list, tuple)) and option else (option,)
    return prod(numbers) if all(type(n) is int and n > 0 for n in numbers) else 0


def _to(_: int, end: int) -> int:
    return end


def _below(start: Any, stop: Any = None, step: Any = 1) -> Any:
    if any(type(number) is not int for number in (start, stop or 0, step)):
        return None
    numbers = range(start) if stop is None else range(start, stop, step)
    return max(numbers[0], numbers[-1])


def _below_in_arrays(low: Any, high: Any = None, *others: Any) -> Any:
    return None if others else _below(low, high)
