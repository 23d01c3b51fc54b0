"""Garbage collection at set times, with what is there at the start left out of it."""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any

from ..arguments import seconds, truth, whole
from .pauses import PauseMeter

log = logging.getLogger("plimsoll")

# Allocations between two looks at young objects: Python's 700 or 2000 look at most of them too soon.
YOUNG = 20_000
MIDDLE = 20
# Old objects are looked at by the clock; by themselves only after very many young collections.
OLD = 1000


class ScheduledCollection:
    """Freezes what is there, raises the thresholds, collects every so often; `stop` puts all back."""

    def __init__(self, every: float, young: int, freeze: bool) -> None:
        self._every = seconds("every", every, 0.001)
        self._young = whole("young", young, 1)
        self._freeze = truth("freeze", freeze)
        self._before: tuple[int, int, int] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.pauses = PauseMeter()

    def start(self) -> ScheduledCollection:
        if self._before is None:
            gc.collect()
            if self._freeze:
                gc.freeze()
            self._before = gc.get_threshold()
            gc.set_threshold(self._young, MIDDLE, OLD)
            self.pauses.start()
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="plimsoll-gc", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        if self._before is None:
            return
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        gc.set_threshold(*self._before)
        self._before = None
        if self._freeze:
            gc.unfreeze()
        self.pauses.stop()

    def collect(self) -> int:
        """Collects all generations now: at a point of your choice, such as the end of an epoch."""
        return gc.collect()

    def report(self) -> dict[str, Any]:
        return self.pauses.report()

    def __enter__(self) -> ScheduledCollection:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            found = gc.collect()
            log.debug("plimsoll: %d objects collected by the clock", found)


def schedule_gc(
    *, every: float = 30.0, young: int = YOUNG, freeze: bool = True
) -> ScheduledCollection:
    """Fewer and shorter pauses: all that lives when it starts is never looked at again.

        data, model = load()
        with plimsoll.schedule_gc(every=30) as garbage:
            train()
        print(garbage.report())

    Start it after the data and the model are there. All generations are collected every `every` seconds;
    young objects after `young` allocations. Garbage among what was frozen is found after `stop`.
    """
    return ScheduledCollection(every, young, freeze).start()
