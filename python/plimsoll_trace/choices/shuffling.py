"""An order for what is chosen where only the data know: the same each time, for steps repeat.

The program's own random numbers stay as they are.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..known.later import Computation, Later

try:
    import numpy
except ImportError:
    numpy = None

# Where fewer than one of so many are taken, the others are not drawn.
_FEW = 16


@functools.lru_cache(maxsize=64)
def shuffled(count: int) -> Any:
    return torch.randperm(count, generator=torch.Generator().manual_seed(count), device="cpu")


def first_shuffled(count: int, taken: int) -> Any:
    """The first of them. PyTorch draws one place after another, so that those behind need not be drawn."""
    if numpy is None or taken * _FEW > count:
        return shuffled(count)[:taken]
    return _drawn(count, taken)


@functools.lru_cache(maxsize=64)
def _drawn(count: int, taken: int) -> Any:
    # PyTorch's generator on the host and this one are the same.
    numbers = numpy.random.RandomState(count).randint(0, 1 << 32, taken, numpy.uint32)
    # What stands at a place that was exchanged; at all others stands their own number.
    moved: dict[int, int] = {}
    found = []
    for place, number in enumerate(numbers.tolist()):
        other = place + number % (count - place)
        found.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return torch.tensor(found, dtype=torch.int64, device="cpu")


class Shuffled(Later):
    """A draw of all places, of which a program takes the first ones."""

    def __init__(self, count: int, dtype: Any) -> None:
        def run(_args: list, _kwargs: dict) -> list[Any]:
            return [shuffled(count).to(dtype)]

        super().__init__(Computation(run, [], {}, 1), 0, torch.Size([count]))
        self._dtype = dtype

    def first(self, taken: int) -> Any:
        return first_shuffled(self.shape[0], taken).to(self._dtype)
