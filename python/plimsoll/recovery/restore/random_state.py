"""Random numbers, put back as they were: a retry draws the dropout that the first try drew."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any

# The state of numpy's own generator. To read it takes 50 microseconds, and most steps never draw from it.

# 624 words and the position in them, as the generator lays them out; compared with what numpy tells before it is used.
RAW_BYTES = 625 * 4

_last: tuple[bytes, Any] | None = None


def numpy_state() -> Any:
    """As `numpy.random.get_state()` gives it; None where numpy is not imported.

    A state that was read before is given again where the generator has not moved since. One that keeps a second
    normal number for the next draw is always read: drawing that number leaves the rest of the state as it was.
    """
    global _last
    numpy = sys.modules.get("numpy")
    random = getattr(numpy, "random", None)
    if random is None:
        return None
    raw = _raw(random)
    if raw is not None and _last is not None and _last[0] == raw:
        return _last[1]
    state = random.get_state()
    _last = (raw, state) if raw is not None and _is_all(raw, state) else None
    return state


def _is_all(raw: bytes, state: Any) -> bool:
    """Whether these bytes are all there is to a state."""
    name, words, position, has_gauss, _ = state
    told: bytes = words.tobytes() + position.to_bytes(4, sys.byteorder)
    return name == "MT19937" and raw == told and not has_gauss


def _raw(random: Any) -> bytes | None:
    """The words of the generator as they lie in memory; None where it is of another kind."""
    find = getattr(random, "get_bit_generator", None)
    generator = find() if find is not None else None
    if generator is None or type(generator) is not getattr(random, "MT19937", None):
        return None
    return ctypes.string_at(generator.ctypes.state_address, RAW_BYTES)


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
