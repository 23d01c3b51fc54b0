"""How long Python's garbage collector stopped the program: counted by `gc.callbacks`."""

from __future__ import annotations

import gc
import time
from typing import Any, Callable


class PauseMeter:
    """Between `start` and `stop`, each collection: automatic, by hand, or ours."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began: float | None = None
        self._generations: dict[int, dict[str, Any]] = {}
        self._running = False

    def start(self) -> PauseMeter:
        if not self._running:
            self._running = True
            gc.callbacks.append(self._seen)
        return self

    def stop(self) -> None:
        if self._running:
            self._running = False
            gc.callbacks.remove(self._seen)

    def __enter__(self) -> PauseMeter:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def report(self) -> dict[str, Any]:
        """Collections, seconds in all, the longest, and what was found, also by generation; measured."""
        by_generation = {
            str(number): dict(one) for number, one in sorted(self._generations.items())
        }
        ones = list(by_generation.values())
        return {
            "collections": sum(one["collections"] for one in ones),
            "totalSeconds": sum(one["totalSeconds"] for one in ones),
            "longestSeconds": max((one["longestSeconds"] for one in ones), default=0.0),
            "collectedObjects": sum(one["collectedObjects"] for one in ones),
            "generations": by_generation,
            "frozenObjects": gc.get_freeze_count(),
            "source": "measured",
        }

    def _seen(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = self._clock()
            return
        if self._began is None:
            # It began before we looked.
            return
        took, self._began = self._clock() - self._began, None
        empty = {
            "collections": 0,
            "totalSeconds": 0.0,
            "longestSeconds": 0.0,
            "collectedObjects": 0,
        }
        one = self._generations.setdefault(info["generation"], empty)
        one["collections"] += 1
        one["totalSeconds"] += took
        one["longestSeconds"] = max(one["longestSeconds"], took)
        one["collectedObjects"] += info.get("collected", 0)


def gc_pauses() -> PauseMeter:
    """Measures the pauses of Python's garbage collector.

    with plimsoll.gc_pauses() as pauses:
        train()
    print(pauses.report()["longestSeconds"])
    """
    return PauseMeter()
