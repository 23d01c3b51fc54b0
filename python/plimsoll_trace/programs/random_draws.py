"""Random numbers that a program draws: on the GPU, which has no values here, and for the sizes of its data."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..standins.patches import Patches
from .loops.rewritten import is_the_programs

# Random numbers that a real run draws in host memory to build its model are counted here, and left out.
#
# The weights get no memory, but the order in which a loader shuffles, and lengths that a program draws, depend on how
# many numbers were drawn before. Batches of different sizes then come as in a real run with the same seed.

_ATEN = torch.ops.aten
_NORMAL = _ATEN.normal_.default
DRAWS = {_ATEN.uniform_.default, _NORMAL}
# Where they have to be made, which takes time and memory.
_MAX_MADE = 25_000_000
# So few are made faster than they are left out.
_FEW = 1 << 20
# One number of the generator makes one value of these.
_ONE_EACH = (torch.float32, torch.float16, torch.bfloat16)
# Values of a normal distribution are made by so many; those at the end that are fewer, once more.
_TOGETHER = 16


# Moves PyTorch's generator of the host on by any count of numbers, in a tenth of a second.
#
# The generator is the Mersenne Twister MT19937: 624 words, of which each new one is a sum, bit by bit and without
# carry, of earlier ones. So the word n steps ahead is a sum of the next 19,937 words, too: those that the remainder
# of
# x^n modulo the generator's characteristic polynomial names. Polynomials are whole numbers here, one bit for each
# coefficient.

WORDS = 624
_MIDDLE, _BITS, _LOW_BITS, _TWIST = 397, 32, 31, 0x9908B0DF
_DEGREE = WORDS * _BITS - _LOW_BITS
# What PyTorch keeps: seed, numbers left before the next words are made, a flag, the place of the next, the words.
_STATE_BYTES, _FORM = 5056, f"<QiiQ{WORDS}Q"


def skip(count: int) -> bool:
    """Leaves out so many numbers of 32 bits; False where the generator is not this one."""
    state = bytes(torch.get_rng_state().tolist())
    if len(state) != _STATE_BYTES:
        return False
    seed, left, seeded, _, *words = struct.unpack_from(_FORM, state)
    place = WORDS + 1 - left + count
    # The last number of some words is drawn before the next words are made.
    rounds = max(0, place - 1) // WORDS
    place -= rounds * WORDS
    head = struct.pack(_FORM, seed, WORDS + 1 - place, seeded, place, *_ahead(words, rounds))
    after = head + state[len(head) :]
    torch.set_rng_state(torch.tensor(list(after), dtype=torch.uint8, device="cpu"))
    return True


def _ahead(words: list[int], rounds: int) -> list[int]:
    """The words after so many times that all of them were made."""
    if rounds == 0:
        return words
    words = _next(words)
    if rounds == 1:
        return words
    following = list(words)
    while len(following) < _DEGREE + WORDS:
        words = _next(words)
        following += words
    row = struct.pack(f"<{len(following)}I", *following)
    total = 0
    for place, is_in in enumerate(reversed(format(_power((rounds - 1) * WORDS), "b"))):
        if is_in == "1":
            total ^= int.from_bytes(row[4 * place : 4 * (place + WORDS)], "little")
    return list(struct.unpack(f"<{WORDS}I", total.to_bytes(4 * WORDS, "little")))


def _next(words: list[int]) -> list[int]:
    made = list(words)
    for place in range(WORDS):
        joined = (made[place] & 0x80000000) | (made[(place + 1) % WORDS] & 0x7FFFFFFF)
        twisted = joined >> 1 ^ (_TWIST if joined & 1 else 0)
        made[place] = made[(place + _MIDDLE) % WORDS] ^ twisted
    return made


def _power(exponent: int) -> int:
    """x^exponent modulo the characteristic polynomial."""
    power = 1
    for bit in format(exponent, "b"):
        # A square has each coefficient at twice its place, and a zero between.
        power = _remainder(int("0".join(format(power, "b")), 2) << int(bit))
    return power


def _remainder(polynomial: int) -> int:
    while above := polynomial >> _DEGREE:
        polynomial &= (1 << _DEGREE) - 1
        for place in _PLACES:
            polynomial ^= above << place
    return polynomial


def _characteristic() -> int:
    """As Matsumoto and Nishimura give it for the generator's own numbers."""
    lower = [1]
    for _ in range(_BITS - _LOW_BITS):
        lower.append(lower[-1] << WORDS ^ lower[-1] << _MIDDLE)
    upper = [lower[-1]]
    for _ in range(_LOW_BITS):
        upper.append(upper[-1] << (WORDS - 1) ^ upper[-1] << (_MIDDLE - 1))
    total = upper[_LOW_BITS]
    for bit in range(_BITS):
        if _TWIST >> bit & 1:
            total ^= upper[_LOW_BITS - 1 - bit] if bit < _LOW_BITS else lower[_BITS - 1 - bit]
    return total


# Where its coefficients are one, but for the highest: 134 places.
_PLACES = [
    place for place, one in enumerate(reversed(format(_characteristic(), "b"))) if one == "1"
][:-1]


class Draws:
    def __init__(self) -> None:
        self._all_followed = True
        # Numbers that a real run has drawn and this one not yet, and the state of the generator before them.
        self.owed = 0
        self._before: Any = None

    def all_followed(self) -> bool:
        self.settle()
        return self._all_followed

    def follow(self, func: Any, args: tuple, kwargs: dict) -> None:
        """For an op that fills a tensor of the host's that has no memory."""
        tensor = args[0]
        count = tensor.numel()
        if kwargs.get("generator") is not None:
            # One that is left out leaves no order to follow.
            self._all_followed = False
        elif count > 0 and _may_be_left_out(func, tensor):
            self._owe(_drawn(func, count))
        elif count > _MAX_MADE:
            self._all_followed = False
        elif count > 0:
            self.settle()
            form = (tensor.shape, tensor.stride())
            func(torch.empty_strided(*form, dtype=tensor.dtype, device="cpu"))

    def settle(self) -> None:
        """Before numbers are drawn: the generator moves on to where a real run's is."""
        owed, self.owed = self.owed, 0
        if not owed or not self._is_as_before():
            return
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            if owed <= _FEW:
                _draw(owed)
            elif not skip(owed):
                self._all_followed = False

    def _owe(self, count: int) -> None:
        if self.owed and not self._is_as_before():
            self.owed = 0
        if not self.owed:
            # So that a program which sets the same seed again leaves another state.
            _draw(1)
            count -= 1
            self._before = torch.get_rng_state()
        self.owed += count

    def _is_as_before(self) -> bool:
        """False where the program has set a seed since: what was drawn before it counts for nothing."""
        return torch.equal(self._before, torch.get_rng_state())


def _draw(count: int) -> None:
    torch.empty(count, dtype=torch.float32, device="cpu").uniform_()


def _may_be_left_out(func: Any, tensor: Any) -> bool:
    if tensor.dtype not in _ONE_EACH:
        return False
    return func is not _NORMAL or (tensor.numel() >= _TOGETHER and tensor.is_contiguous())


def _drawn(func: Any, count: int) -> int:
    return count + _TOGETHER if func is _NORMAL and count % _TOGETHER else count


# Numbers that a program draws from some, without a seed: the largest comes second.
#
# A training at several sizes draws that of its images every few steps: `side = random.choice(SIDES)`. Each run draws
# others, and after some hundred steps all have come. Few draws are seen here, and the largest size takes the most
# memory.
# At each place of the program that draws it comes second, after one that is drawn as usual: blocks of a smaller one
# are
# then there, which do not fit, as in most runs. A program with a seed draws what it draws in a real run.

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
