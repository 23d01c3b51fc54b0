"""Random numbers that a real run draws in host memory to build its model are drawn here, too.

The weights get no memory, but the order in which a loader shuffles depends on how many numbers were
drawn before it. Batches of different sizes then come in the order of a real run with the same seed.
"""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
DRAWS = {_ATEN.uniform_.default, _ATEN.normal_.default}
# Some 10 ns each: of larger models, which pad their batches, the order is not followed.
_MAX_VALUES = 100_000_000
_MAX_AT_ONCE = 25_000_000


class Draws:
    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def follow(self, func: Any, args: tuple, kwargs: dict) -> None:
        """For an op that fills a tensor of the host's that has no memory."""
        tensor = args[0]
        count = tensor.numel()
        if kwargs.get("generator") is not None or not 0 < count <= min(self._left, _MAX_AT_ONCE):
            # One that is left out leaves no order to follow.
            self._left = 0
            return
        self._left -= count
        func(torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu"))
