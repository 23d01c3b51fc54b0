"""Random numbers, put back as they were: a retry draws the dropout that the first try drew."""

from __future__ import annotations

import random
import sys
from typing import Any

from .numpy_state import numpy_state


class RandomState:
    """The state of every generator that this process has in use, at one moment."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = numpy_state()
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

    def as_plain(self) -> dict[str, Any]:
        """For a file: tensors and plain values alone."""
        python = [self._python[0], list(self._python[1]), self._python[2]]
        numpy = None
        if self._numpy is not None:
            name, words, *rest = self._numpy
            numpy = [str(name), [int(word) for word in words], *rest]
        return {"python": python, "numpy": numpy, "torch": self._torch, "cuda": self._cuda}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> RandomState:
        """Of this process where the file does not tell; of cards that are not here nothing."""
        state = cls()
        version, words, gauss = plain["python"]
        state._python = (version, tuple(words), gauss)
        if plain["numpy"] is not None:
            import numpy

            name, values, *rest = plain["numpy"]
            state._numpy = (name, numpy.array(values, dtype=numpy.uint32), *rest)
        state._torch = plain["torch"]
        here = {index for index, _ in state._cuda}
        state._cuda = [(index, one) for index, one in plain["cuda"] if index in here]
        return state


def _cuda_states(torch: Any) -> list[tuple[int, Any]]:
    if torch is None or not torch.cuda.is_initialized():
        return []
    # The generators live on the host: reading them neither waits for a card nor wakes one.
    return [(index, one.get_state()) for index, one in enumerate(torch.cuda.default_generators)]
