"""The garbage that PyTorch's compiler leaves behind: a million objects that refer to one another.

To look for it takes a second for each graph, as often as not twice. A program ends before it matters.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# So many objects of the compiler may be left lying: they take less than half a GiB.
_LEFT = 2_000_000
_left = 0


@contextmanager
def left_lying() -> Iterator[None]:
    """What is made meanwhile counts as old from then on: only a full collection looks at it."""
    global _left
    collects = gc.isenabled()
    # What the program itself let go is garbage as ever.
    gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        made = gc.get_count()[0]
        if _left + made <= _LEFT:
            _left += made
            # Out of all generations, and back into the oldest: neither looks at any object.
            gc.freeze()
            gc.unfreeze()
        if collects:
            gc.enable()


def collect() -> None:
    """At the end of a program: all that it let go, or, beside a compiler's, what it let go last."""
    gc.collect(1 if _left else 2)
