"""Tells the supervisor, twice a second, what the allocator holds."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any, Callable

from ..memory.gauge import CudaGauge, HostGauge
from . import phase
from .memory_cap import cap_current
from .messages import device_name

log = logging.getLogger("plimsoll")

EVERY_SECONDS = 0.5
# Above what rests between steps by this much: activations of a forward.
GROWN = 1.01

# What else a part of the package has to report, by its name in `figures`; None while there is nothing.
sources: dict[str, Callable[[], dict[str, Any] | None]] = {}


class Reporter:
    """A daemon thread. It asks nothing of a card that the program has not initialised itself."""

    def __init__(self, bridge: Any) -> None:
        self._bridge = bridge
        self._gauge: Any = HostGauge()
        self._resting: int | None = None
        self._captures = _count_captures()

    def start(self) -> None:
        threading.Thread(target=self._run, name="plimsoll-reporter", daemon=True).start()

    def _run(self) -> None:
        # While no supervisor is there it still looks: the next one shall know of every peak.
        while not self._bridge.over:
            try:
                self.report()
            except Exception as error:
                # A device that cannot be read now may be readable later; the job is not told.
                log.debug("plimsoll: no figures: %s", error)
            time.sleep(EVERY_SECONDS)

    def report(self) -> None:
        if self._captures["now"]:
            # Asking the driver while a CUDA graph is recorded could break the recording.
            return
        self._follow_device()
        figures = self._gauge.figures()
        more = {name: read() for name, read in list(sources.items())}
        known = {name: value for name, value in more.items() if value is not None}
        now = {"type": "figures", "at": time.time(), **figures, "phase": self._phase(figures)}
        self._bridge.send({**now, **known})

    def _follow_device(self) -> None:
        name = device_name()
        if name == self._gauge.device:
            return
        torch = sys.modules["torch"]
        self._gauge = CudaGauge(int(name[5:])) if name.startswith("cuda:") else HostGauge()
        if name.startswith("cuda:"):
            cap_current(torch)
        self._bridge.say_hello()

    def _phase(self, figures: Any) -> str:
        seen = phase.current()
        held = figures["allocatedBytes"]
        if seen != phase.IDLE:
            return seen
        self._resting = held if self._resting is None else min(self._resting, held)
        return phase.FORWARD if held > GROWN * self._resting else phase.IDLE


_captures = {"now": 0}


def _count_captures() -> dict[str, int]:
    """How many CUDA graphs are being recorded right now."""
    count = _captures
    graph = getattr(getattr(sys.modules.get("torch"), "cuda", None), "CUDAGraph", None)
    if (
        graph is None
        or not hasattr(graph, "capture_begin")
        or hasattr(graph.capture_begin, "_plimsoll")
    ):
        return count
    begin, end = graph.capture_begin, graph.capture_end

    def capture_begin(self: Any, *arguments: Any, **named: Any) -> Any:
        count["now"] += 1
        return begin(self, *arguments, **named)

    def capture_end(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return end(self, *arguments, **named)
        finally:
            count["now"] = max(0, count["now"] - 1)

    capture_begin.__dict__["_plimsoll"] = True
    graph.capture_begin, graph.capture_end = capture_begin, capture_end
    return count
