"""The batches between two steps of an optimizer that is not ours: gradients of all of them add up."""

from __future__ import annotations

from typing import Any, Callable

from ..recovery.parts import BatchRun, sample_weights
from ..recovery.restore import RandomState
from ..recovery.rules.sizes import aligned_part

# How the mean of a batch's loss is taken: what a part of it weighs.
SUM, TOKENS, SAMPLES = "sum", "tokens", "samples"
NO_RULE = "none"

Work = Callable[[Any, float], Any]


class WindowRun(BatchRun):
    """One batch of a window. Where gradients of earlier batches are lost with it, all of them are done again."""

    def __init__(
        self, window: Window, batch: Any, count: int, work: Work, restarted: Callable[[], None]
    ) -> None:
        super().__init__(batch, count, window.settings, window.model)
        self.work = work
        self._restarted = restarted
        self._window = window
        self._is_new = True

    def random_before_part(self) -> RandomState:
        # The first part begins where its batch begins, and a copy takes tens of microseconds.
        is_new, self._is_new = self._is_new, False
        return self._began if is_new else super().random_before_part()

    def _cut(self, left: int, most: int) -> int:
        return aligned_part(left, most)

    def start_again(self) -> None:
        self._window.start_again()

    def reset(self) -> None:
        self.done = 0
        self.partition = []
        self.loss = None
        self._restarted()

    def put_random_back(self) -> None:
        self._began.restore()

    def _share(self, samples: Any, start: int, stop: int) -> float:
        rule = self._window.rule
        if rule == SUM or (start == 0 and stop == self.count):
            return 1
        if self._total is None and rule == TOKENS:
            self._weights = sample_weights(self.batch, self.count, "auto", self._model)
            self._total = float(sum(self._weights)) if self._weights else 0.0
        if not self._weights or not self._total:
            return self._by_samples(start, stop)
        return sum(self._weights[start:stop]) / self._total


class Window:
    def __init__(self, model: Any, settings: Any) -> None:
        self.model = model
        self.settings = settings
        # Known once a batch has to be cut; until then every batch is whole.
        self.rule: str | None = None
        self.runs: list[WindowRun] = []

    @property
    def is_empty(self) -> bool:
        return not self.runs

    def close(self) -> None:
        """The optimizer has stepped, or its gradients were cleared: what was done stays done."""
        self.runs = []

    def add(self, batch: Any, count: int, work: Work, restarted: Callable[[], None]) -> WindowRun:
        run = WindowRun(self, batch, count, work, restarted)
        self.runs.append(run)
        return run

    def start_again(self) -> None:
        """All of it once more, with the random numbers that it began with."""
        for run in self.runs:
            run.reset()
        self.runs[0].put_random_back()

    def next(self) -> WindowRun | None:
        """The batch that is to be done now."""
        return next((one for one in self.runs if one.done < one.count), None)
