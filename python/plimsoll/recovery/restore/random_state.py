"""Random numbers, put back as they were: a retry draws the dropout that the first try drew."""

from __future__ import annotations

import random
import sys
from typing import Any


class RandomState:
    """The state of every generator that this process has in use, at one moment."""

    def __init__(self) -> None:
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = (
            numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None
        )
        torch = sys.modules.get("torch")
        self._torch = torch.get_rng_state() if torch is not None else None
        self._cuda = _cuda_states(torch)

    def restore(self) -> None:
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if self._torch is None:
            return
        torch = sys.modules["torch"]
        torch.set_rng_state(self._torch)
        for index, state in self._cuda:
            torch.cuda.set_rng_state(state, index)


def _cuda_states(torch: Any) -> list[tuple[int, Any]]:
    if torch is None or not torch.cuda.is_initialized():
        return []
    # The generators live on the host: reading them neither waits for a card nor wakes one.
    return [(index, one.get_state()) for index, one in enumerate(torch.cuda.default_generators)]
