"""Random numbers that a real run draws in host memory to build its model are counted here, and left out.

The weights get no memory, but the order in which a loader shuffles, and lengths that a program draws, depend on how
many numbers were drawn before. Batches of different sizes then come as in a real run with the same seed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import mersenne_twister

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
            elif not mersenne_twister.skip(owed):
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
