"""The card's memory runs out where a program has code for it: one that looks for the largest batch, say.

Any other program gets all that it asks for, and the answer says that it does not fit.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch

from ...gpu import GIB, MIB
from ..places import Places

# What CUDA itself takes of a card; 630 to 762 MiB on an H200.
_CONTEXT = 700 * MIB
_MAX_SOURCE_BYTES = 4 * 2**20
# Found in a handler that is for this error. The last two are those of accelerate and of Lightning.
_NAMES = ("OutOfMemoryError", "out of memory", "should_reduce_batch_size", "is_oom_error")
_NOTE = (
    "The memory of the {} ran out at {}, and the program handles this itself: counted is what it does then, "
    "which may differ on another card"
)


class OutOfMemory:
    def __init__(self, observer: Any, places: Places) -> None:
        self._observer, self._places = observer, places
        self.allow(1.0)

    def allow(self, share: float) -> None:
        """So much of the card, as `torch.cuda.set_per_process_memory_fraction` says."""
        self._share = share
        self._observer.ledger.limit = self._limit()
        self._observer.ledger.over_limit = self._over

    def _limit(self) -> int:
        # What lies on several cards is counted as on one.
        whole = self._observer.gpu.memory * max(1, self._places.cards)
        return min(int(whole * self._share), whole - _CONTEXT)

    def _over(self, size: int) -> None:
        ledger = self._observer.ledger
        # How many cards there are is known later than the limit is set.
        ledger.limit = self._limit()
        if ledger.live_bytes + size <= ledger.limit:
            return
        where = _handled_at(sys._getframe(1))
        if where is None:
            # A real run would end here; all that it asks for is counted.
            ledger.limit = sys.maxsize
            return
        gpu = self._observer.gpu
        self._observer.notes.add(_NOTE.format(gpu.name, where))
        free = max(0, ledger.limit - ledger.live_bytes)
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / GIB:.2f} GiB. GPU 0 has a total capacity of "
            f"{gpu.memory / GIB:.2f} GiB of which {free / GIB:.2f} GiB is free."
        )


def _handled_at(frame: Any) -> str | None:
    """The line that runs now inside of a `try` for this error; None where there is none."""
    while frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        if any(first <= line <= last for first, last in _tries(path)):
            return f"{path}:{line}"
        frame = frame.f_back
    return None


@functools.cache
def _tries(path: str) -> tuple[tuple[int, int], ...]:
    """The first and last lines of what is tried in a file, by each `try` that handles this error."""
    try:
        with open(path, "rb") as file:
            source = file.read(_MAX_SOURCE_BYTES)
        if not any(name.encode() in source for name in _NAMES):
            return ()
        tree = ast.parse(source, path)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return ()
    return tuple(_ranges(tree))


def _ranges(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_is_for_it, node.handlers)):
            yield node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno


def _is_for_it(handler: ast.ExceptHandler) -> bool:
    text = ast.unparse(handler)
    return any(name in text for name in _NAMES)
