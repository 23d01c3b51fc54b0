"""Finds what grows from step to step: tensors, objects one watches, lines that allocate."""

from __future__ import annotations

import logging
import tracemalloc
import weakref
from collections import Counter
from typing import Any, Callable

from ..arguments import BadType, BadValue, function, text, truth, whole
from .census import count_tensors

log = logging.getLogger("plimsoll")

# Steps in which something must grow, one after the other, before it is called a leak.
STEPS_OF_GROWTH = 3
TOP = 10


class LeakTracker:
    """`watch` objects that should die; `check` after each step; `report` what did not, and what grew."""

    def __init__(self, python: bool = False, top: int = TOP) -> None:
        truth("python", python)
        whole("top", top, 1)
        self._watched: dict[int, tuple[str, Any]] = {}
        self._stale: dict[int, tuple[int, Callable[[Any], Any]]] = {}
        self._checks = 0
        self._tensors: list[Counter[Any]] = []
        self._sizes: dict[tuple[Any, ...], int] = {}
        self._top = top
        self._first: Any | None = None
        self._own = False
        if python:
            self._own = not tracemalloc.is_tracing()
            if self._own:
                # The line alone is told: more frames would only take longer.
                tracemalloc.start(1)
            self._first = tracemalloc.take_snapshot()

    def watch(
        self,
        thing: Any,
        name: str = "",
        stale_after: int | None = None,
        release: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Holds it weakly: it is not kept alive by being watched.

        With `stale_after`, an object that still lives after so many checks is passed to `release`, once:
        a function that drops what it holds, such as `dict.clear`.
        """
        if (stale_after is None) != (function("release", release) is None):
            raise BadValue("stale_after and release belong together", "pass both, or none of them")
        steps = None if stale_after is None else whole("stale_after", stale_after, 1)
        key = id(thing)
        label = text("name", name or type(thing).__name__, "the model")
        try:
            self._watched[key] = (label, weakref.ref(thing, lambda _: self._forget(key)))
        except TypeError:
            fact = f"a {type(thing).__name__} cannot be watched: it takes no weak references"
            raise BadType(fact, "watch the object that holds it") from None
        self._stale.pop(key, None)
        if steps is not None and release is not None:
            self._stale[key] = (self._checks + steps, release)
        return thing

    def alive(self) -> list[str]:
        return [name for name, ref in list(self._watched.values()) if ref() is not None]

    def check(self) -> dict[str, Any]:
        """To be called at the same point of each step. Counts the tensors that live."""
        released = self._release_stale()
        self._checks += 1
        counts, sizes = count_tensors()
        self._sizes.update(sizes)
        self._tensors = [*self._tensors, counts][-(STEPS_OF_GROWTH + 1) :]
        return {
            "tensors": sum(counts.values()),
            "growing": self.growing(),
            "released": released,
        }

    def _release_stale(self) -> list[str]:
        """Names of objects whose memory was released, so that they are no longer watched."""
        names = []
        for key in [key for key, (due, _) in list(self._stale.items()) if self._checks >= due]:
            _, release = self._stale.pop(key)
            name, reference = self._watched.get(key, ("", None))
            thing = None if reference is None else reference()
            if thing is None:
                continue
            try:
                release(thing)
            except Exception as error:
                log.warning("plimsoll: %s could not be released: %s", name, error)
                continue
            self._watched.pop(key, None)
            names.append(name)
        return names

    def _forget(self, key: int) -> None:
        self._watched.pop(key, None)
        self._stale.pop(key, None)

    def growing(self) -> list[dict[str, Any]]:
        """Kinds of tensors that there were more of after every one of the last checks."""
        if len(self._tensors) <= STEPS_OF_GROWTH:
            return []
        found = []
        for kind in self._tensors[-1]:
            counts = [step[kind] for step in self._tensors]
            if all(later > earlier for earlier, later in zip(counts, counts[1:])):
                shape, dtype, device = kind
                found.append(
                    {
                        "shape": list(shape),
                        "dtype": dtype,
                        "device": device,
                        "count": counts[-1],
                        "bytes": (counts[-1] - counts[0]) * self._sizes[kind],
                    }
                )
        return sorted(found, key=lambda one: -one["bytes"])[: self._top]

    def python_growth(self) -> list[dict[str, Any]]:
        """Lines of Python that hold more than at the start."""
        if self._first is None:
            return []
        hidden = [
            tracemalloc.Filter(False, tracemalloc.__file__),
            tracemalloc.Filter(False, __file__),
        ]
        now = tracemalloc.take_snapshot().filter_traces(hidden)
        changes = now.compare_to(self._first.filter_traces(hidden), "lineno")
        return [
            {
                "where": f"{c.traceback[0].filename}:{c.traceback[0].lineno}",
                "bytes": c.size_diff,
                "count": c.count_diff,
            }
            for c in changes[: self._top]
            if c.size_diff > 0
        ]

    def report(self) -> dict[str, Any]:
        growing = self.growing()
        return {
            "found": bool(growing),
            "tensors": growing,
            "alive": self.alive(),
            "python": self.python_growth(),
            "source": "measured",
        }

    def close(self) -> None:
        if self._own:
            tracemalloc.stop()
            self._own, self._first = False, None

    def __enter__(self) -> LeakTracker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def track_leaks(python: bool = False, top: int = TOP) -> LeakTracker:
    """Looks for memory that grows.

        leaks = plimsoll.track_leaks()
        for batch in data:
            train(batch)
            if leaks.check()["growing"]:
                print(leaks.report())

    `python=True` traces Python's own allocations too (tracemalloc), which slows Python down.
    """
    return LeakTracker(python, top)
