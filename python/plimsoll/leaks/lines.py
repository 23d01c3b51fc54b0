"""Lines of Python that hold more and more: found by short looks, so that the program runs at its speed.

Recording each allocation makes a small program several times slower. A look records them for some milliseconds; all
looks together take a small share of the time, however slow recording is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

# The share of the time that may be recorded.
SHARE = 0.03
# A look has two halves: the first lets what lives for a moment come and go, the second counts what is added.
SHORTEST_SECONDS = 0.004
# A step of a training is seldom longer; what lives for one step is no growth.
LONGEST_SECONDS = 1.0
# A line that grows does so in most looks; what a step makes and frees grows in about half of them.
MOST = 2 / 3
LOOKS_KEPT = 64

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HIDDEN = (tracemalloc.__file__, threading.__file__, "<frozen")

# File and line of the program.
Place = tuple[str, int]


class GrowingLines:
    """Looks from a thread between `start` and `stop`; `rows` says which lines hold more than before."""

    def __init__(self) -> None:
        self._looks: list[dict[Place, tuple[int, int]]] = []
        self._before = 0
        self._grown: int | None = None
        self._began = 0.0
        self._spent = 0.0
        self._own = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """The first look begins at once: a short program has no other."""
        self._looks = []
        self._spent, self._grown = 0.0, None
        self._before = sys.getallocatedblocks()
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="plimsoll-lines", daemon=True)
        self._open()
        self._began = time.perf_counter()
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        self._grown = sys.getallocatedblocks() - self._before

    def rows(self, top: int) -> list[dict[str, Any]]:
        """The lines that grow most."""
        grown = sys.getallocatedblocks() - self._before if self._grown is None else self._grown
        return growing(self._looks, grown)[:top]

    def _run(self) -> None:
        begun, half = self._began, SHORTEST_SECONDS
        while True:
            self._stop.wait(half)
            # Of the first look all is counted: it began with the block.
            before = tracemalloc.take_snapshot() if self._looks else None
            if before is not None:
                self._stop.wait(half)
            after = tracemalloc.take_snapshot()
            if self._own:
                tracemalloc.stop()
            traced = time.perf_counter() - begun
            own = time.thread_time()
            self._looks.append(_more({} if before is None else _held(before), _held(after)))
            # The middle goes: the first looks are short, and the last ones tell what goes on.
            if len(self._looks) > LOOKS_KEPT:
                del self._looks[LOOKS_KEPT // 2]
            # Its own work beside the program counts as what it takes of the processor.
            self._spent += traced + time.thread_time() - own
            elapsed = time.perf_counter() - self._began
            if self._stop.wait(max(0.0, self._spent / SHARE - elapsed)):
                return
            elapsed = time.perf_counter() - self._began
            half = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, elapsed * SHARE / 4))
            self._open()
            begun = time.perf_counter()

    def _open(self) -> None:
        # A program that records its allocations itself goes on doing so.
        self._own = not tracemalloc.is_tracing()
        if self._own:
            tracemalloc.start(1)


def growing(looks: Sequence[dict[Place, tuple[int, int]]], grown: int) -> list[dict[str, Any]]:
    """The lines that took more in most looks, the surest first, from (bytes, blocks) that each look saw more of.

    Looks see a part of the time. All of Python took `grown` blocks more; the lines share them as they were seen.

    >>> growing([{("a.py", 3): (80, 2)}], 5)
    [{'where': 'a.py:3', 'bytes': 200, 'count': 5, 'source': 'estimated'}]
    """
    # The first began with the program: whatever is made for one step counts there as growth.
    counted = looks[1:] or looks
    sizes: Counter[Place] = Counter()
    blocks: Counter[Place] = Counter()
    rises: Counter[Place] = Counter()
    for look in counted:
        for place, (size, count) in look.items():
            sizes[place] += size
            blocks[place] += count
            rises[place] += size > 0
    found = [
        place
        for place in sizes
        if min(sizes[place], blocks[place]) > 0 and rises[place] >= MOST * len(counted)
    ]
    seen = sum(blocks[place] for place in found)
    if grown <= 0 or seen == 0:
        return []
    factor = max(1.0, grown / seen)
    return [
        {
            "where": f"{place[0]}:{place[1]}",
            "bytes": int(sizes[place] * factor),
            "count": int(blocks[place] * factor),
            "source": "measured" if factor == 1 else "estimated",
        }
        for place in sorted(found, key=lambda place: (-rises[place], -sizes[place]))
    ]


def _more(
    before: dict[Place, tuple[int, int]], after: dict[Place, tuple[int, int]]
) -> dict[Place, tuple[int, int]]:
    none = (0, 0)
    pairs = {
        place: (before.get(place, none), after.get(place, none)) for place in {**before, **after}
    }
    return {place: (b[0] - a[0], b[1] - a[1]) for place, (a, b) in pairs.items()}


def _held(snapshot: tracemalloc.Snapshot) -> dict[Place, tuple[int, int]]:
    """What each line of the program holds of what was recorded: bytes and blocks."""
    found = {}
    for one in snapshot.statistics("lineno"):
        frame = one.traceback[0]
        if not frame.filename.startswith((_PACKAGE, *_HIDDEN)):
            found[frame.filename, frame.lineno] = (one.size, one.count)
    return found
