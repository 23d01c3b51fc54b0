"""Garbage collection: its thresholds, when memory is short, and in an emergency."""

from __future__ import annotations

import functools
import gc
import logging
import threading
import time
from typing import Any, Callable

from ..arguments import function, seconds, share, truth, whole
from ..memory.clean_up import give_back_caches
from ..memory.gauge import gauge_of

# How long Python's garbage collector stopped the program: counted by `gc.callbacks`.


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


log = logging.getLogger("plimsoll")

# Python's own before 3.12; newer ones collect the young less often, which lets garbage pile up.
THRESHOLDS = (700, 10, 10)


class GarbageSettings:
    """The thresholds that were set, and those before; `undo()` or leaving the `with` puts them back."""

    def __init__(self, thresholds: tuple[int, int, int]) -> None:
        self.before = gc.get_threshold()
        gc.set_threshold(*thresholds)

    def undo(self) -> None:
        gc.set_threshold(*self.before)

    def __enter__(self) -> GarbageSettings:
        return self

    def __exit__(self, *_: Any) -> None:
        self.undo()


def tune_gc(
    young: int = THRESHOLDS[0], middle: int = THRESHOLDS[1], old: int = THRESHOLDS[2]
) -> GarbageSettings:
    """Sets how often Python looks for garbage.

    with plimsoll.tune_gc(700, 10, 10):
        train()
    """
    return GarbageSettings(
        (whole("young", young, 0), whole("middle", middle, 0), whole("old", old, 0))
    )


class PressureCollector:
    """Looks at memory now and then; above the line it collects and gives caches back."""

    def __init__(
        self,
        above: float,
        every: float,
        quiet: float,
        used_share: Callable[[], float] | None = None,
    ) -> None:
        share("above", above)
        seconds("every", every, 0.001)
        seconds("quiet", quiet)
        self.collections = 0
        self.longest_seconds = 0.0
        self._above, self._every, self._quiet = above, every, quiet
        self._share = used_share
        self._last = float("-inf")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plimsoll-collect", daemon=True)

    def start(self) -> PressureCollector:
        self._thread.start()
        return self

    def look(self, now: float) -> bool:
        """One look; True when it collected. Not again for a while: collecting stops the world."""
        share = (self._share or gauge_of().used_share)()
        if share <= self._above or now - self._last < self._quiet:
            return False
        begin = time.perf_counter()
        give_back_caches()
        self.longest_seconds = max(self.longest_seconds, time.perf_counter() - begin)
        self.collections += 1
        self._last = now
        return True

    def stop(self) -> None:
        self._stop.set()

    def __enter__(self) -> PressureCollector:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self.look(time.monotonic())
            except Exception as error:
                log.debug("plimsoll: no look at memory: %s", error)


def collect_on_pressure(
    above: float = 0.85, every: float = 5.0, quiet: float = 60.0
) -> PressureCollector:
    """Collects garbage and gives cached memory back when more than a share of memory is in use.

    with plimsoll.collect_on_pressure(above=0.8):
        train()
    """
    return PressureCollector(above, every, quiet).start()


def clean_up(emergency: bool = False) -> dict[str, int]:
    """Gives back what nothing uses; in an emergency also models that `load` keeps for reuse.

    freed = plimsoll.clean_up()["freedBytes"]
    """
    truth("emergency", emergency)
    gauge = gauge_of()
    before, held = gauge.used_bytes(), gauge.figures()["reservedBytes"]
    unreachable = gc.collect()
    if emergency:
        from ..loading.load import unload

        unload()
    give_back_caches()
    return {
        "collectedObjects": unreachable,
        "freedBytes": max(0, before - gauge.used_bytes()),
        "givenBackBytes": max(0, held - gauge.figures()["reservedBytes"]),
    }


class cleaning:
    """Cleans up after a block or a function, whether it ended well or not.

    @plimsoll.cleaning()
    def evaluate(): ...
    """

    def __init__(self, emergency: bool = False) -> None:
        self._emergency = truth(
            "emergency", emergency, "write @plimsoll.cleaning() to decorate a function"
        )

    def __enter__(self) -> cleaning:
        return self

    def __exit__(self, *_: Any) -> None:
        clean_up(self._emergency)

    def __call__(self, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function("the decorated thing", work))
        def cleaned(*arguments: Any, **named: Any) -> Any:
            with cleaning(self._emergency):
                return work(*arguments, **named)

        return cleaned


# Garbage collection at set times, with what is there at the start left out of it.


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
