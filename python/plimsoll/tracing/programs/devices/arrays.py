"""Large arrays of numpy that a program makes of what came from the GPU.

The outputs of a whole evaluation take gigabytes, and their values are made up anyway: so the last dimensions get
values, and the first ones repeat them without memory. What a program makes a tensor of again is without memory, too.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import torch

from ... import small_values
from ...known.freed_memory import give_freed_memory_back
from .. import values
from ..places import HOST, Places

# Values that get memory.
_LEAST_VALUES = 1 << 20
# Of so many, each array that a program computes takes 64 MiB or more.
_MANY_VALUES = 1 << 24


class Arrays:
    def __init__(self, places: Places, observer: Any):
        self._places = places
        self._observer = observer
        # Of those that repeat their values: where these lie, as long as they do.
        self._repeating: dict[int, Any] = {}

    def of(self, tensor: Any) -> Any:
        """The array of a tensor of the host's that has no memory."""
        shape = tuple(tensor.shape)
        if math.prod(shape) >= _MANY_VALUES:
            give_freed_memory_back()
        first = _repeats(shape)
        if math.prod(shape[:first]) == 1 or small_values.is_known(tensor):
            return values.plausible(tensor, self._observer).numpy()
        held = values.plausible(tensor, self._observer, shape=shape[first:]).numpy()
        from numpy.lib.stride_tricks import as_strided

        key = _address(held)
        self._repeating[key] = weakref.ref(held, lambda _: self._repeating.pop(key, None))
        return as_strided(held, shape, (*(0 for _ in shape[:first]), *held.strides))

    def tensor_of(self, array: Any) -> Any | None:
        """Without memory, if the array is one of these; else None."""
        if not self._repeating or getattr(array, "size", 0) <= _LEAST_VALUES:
            return None
        if not hasattr(array, "__array_interface__") or _address(array) not in self._repeating:
            return None
        dtype = torch.from_numpy(array[(slice(0, 1),) * array.ndim]).dtype
        with self._places.naming(HOST):
            return torch.empty(array.shape, dtype=dtype, device="meta")


def _repeats(shape: tuple[int, ...]) -> int:
    """How many of the first dimensions need no values of their own."""
    first, held = len(shape), 1
    while first > 0 and held < _LEAST_VALUES:
        first -= 1
        held *= shape[first]
    return first


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]
