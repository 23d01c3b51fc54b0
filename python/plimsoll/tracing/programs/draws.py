"""Random numbers that a real run draws in host memory to build its model are drawn here, too.

The weights get no memory, but the order in which a loader shuffles, and lengths that a program draws,
depend on how many numbers were drawn before. Batches of different sizes then come as in a real run with
the same seed.
"""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
_NORMAL = _ATEN.normal_.default
DRAWS = {_ATEN.uniform_.default, _NORMAL}
# Some 5 ns each: of larger models, which pad their batches, the order is not followed.
_MAX_VALUES = 500_000_000
# Where they have to be made, which takes twice as long, and memory.
_MAX_MADE = 25_000_000
# One number of the generator makes one value of these.
_ONE_EACH = (torch.float32, torch.float16, torch.bfloat16)
# Values of a normal distribution are made by so many; those at the end that are fewer, once more.
_TOGETHER = 16
# The state of PyTorch's generator of the host: seed, numbers left, a flag, the next one, the numbers.
_STATE_BYTES, _LEFT, _NEXT, _NUMBERS, _COUNT = 5056, 8, 16, 24, 624


class Draws:
    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def all_followed(self) -> bool:
        return self._left > 0

    def follow(self, func: Any, args: tuple, kwargs: dict) -> None:
        """For an op that fills a tensor of the host's that has no memory."""
        tensor = args[0]
        count = tensor.numel()
        if kwargs.get("generator") is not None or not 0 < count <= self._left:
            # One that is left out leaves no order to follow.
            self._left = 0
            return
        self._left -= count
        if _may_be_skipped(func, tensor) and skip(_drawn(func, count)):
            return
        if count > _MAX_MADE:
            self._left = 0
            return
        form = (tensor.shape, tensor.stride())
        func(torch.empty_strided(*form, dtype=tensor.dtype, device="cpu"))


def _may_be_skipped(func: Any, tensor: Any) -> bool:
    if tensor.dtype not in _ONE_EACH:
        return False
    return func is not _NORMAL or (tensor.numel() >= _TOGETHER and tensor.is_contiguous())


def _drawn(func: Any, count: int) -> int:
    return count + _TOGETHER if func is _NORMAL and count % _TOGETHER else count


def skip(count: int) -> bool:
    """Moves the host's generator on by so many numbers; False where it is not one that is known."""
    try:
        import numpy
    except ImportError:
        return False
    state = torch.get_rng_state().numpy().copy()
    if state.nbytes != _STATE_BYTES:
        return False
    left = state[_LEFT : _LEFT + 4].view(numpy.int32)
    following = state[_NEXT : _NEXT + 8].view(numpy.uint64)
    numbers = state[_NUMBERS : _NUMBERS + 8 * _COUNT].view(numpy.uint64)
    # The same algorithm, which numpy runs without keeping the numbers. It says which is the next.
    twister = numpy.random.MT19937()
    place = _COUNT + 1 - int(left[0])
    twister.state = {
        "bit_generator": "MT19937",
        "state": {"key": numbers.astype(numpy.uint32), "pos": place},
    }
    twister.random_raw(count, output=False)
    after: Any = twister.state["state"]
    left[0], following[0], numbers[:] = _COUNT + 1 - after["pos"], after["pos"], after["key"]
    torch.set_rng_state(torch.from_numpy(state))
    return True
