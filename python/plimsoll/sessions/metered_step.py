"""A training step whose batches and times are counted."""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any, Callable

from ..recovery.parts.split import Splitter
from ..recovery.recovering import recovering

# The steps whose times are kept: enough for a median that follows the run.
KEPT = 1000
# The first steps warm kernels and caches up; where there are more, they do not count in the median.
WARM_UP = 3


class MeteredStep:
    """Calls a recovering step, and remembers what it took."""

    def __init__(
        self,
        step: Any,
        size: Callable[[Any], int] | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.step = step
        self.steps = 0
        self.samples = 0
        self._splitter = Splitter(size)
        self._clock = clock
        self._seconds = 0.0
        self._first: list[float] = []
        self._times: deque[float] = deque(maxlen=KEPT)
        self._batch: int | None = None

    def __call__(self, batch: Any, loss: Callable[[Any], Any] | None = None) -> Any:
        count = self._splitter.size(batch)
        begin = self._clock()
        result = self.step(batch, loss)
        # The loss is on the device: reading it waits for the step, as its time must.
        if hasattr(result, "item"):
            result.item()
        took = self._clock() - begin
        self.steps += 1
        self.samples += count
        self._seconds += took
        self._batch = count
        (self._first if self.steps <= WARM_UP else self._times).append(took)
        return result

    def report(self) -> dict[str, Any]:
        """Batch, samples a second, and the time of a step; measured. Unknown before the first step."""
        times = list(self._times) or self._first
        events = [event for event in self.step.events if event.get("action") == "retry"]
        return {
            "steps": self.steps,
            "samples": self.samples,
            "batch": "unknown" if self._batch is None else self._batch,
            "microbatch": "unknown" if self.step.microbatch is None else self.step.microbatch,
            "samplesPerSecond": self.samples / self._seconds if self._seconds else "unknown",
            "stepSeconds": statistics.median(times) if times else "unknown",
            "longestStepSeconds": max([*self._first, *self._times], default="unknown"),
            "recoveries": len(events),
            "source": "measured",
        }


def metered(
    model: Any,
    optimizer: Any,
    loss: Callable[[Any], Any] | None,
    *,
    microbatch: int | None,
    size: Callable[[Any], int] | None,
) -> MeteredStep:
    step = recovering(model, optimizer, loss, microbatch=microbatch, size=size)
    return MeteredStep(step, size)
