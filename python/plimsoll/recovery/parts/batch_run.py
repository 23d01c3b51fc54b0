"""One batch on its way through microbatches: what is done, what is left, and how to start again."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..restore.random_state import RandomState
from ..rules.sizes import even_part
from .shares import sample_weights


class BatchRun:
    """Every sample of the batch is in exactly one finished microbatch, or still to do."""

    def __init__(self, batch: Any, count: int, settings: Any, model: Any) -> None:
        self.batch = batch
        self.count = count
        self.loss: Any = None
        self.done = 0
        self.partition: list[int] = []
        self.attempt = 0
        self.failures = 0
        # How often a part of a size took all that was done with it: the same again could go on for ever.
        self.lost: Counter[int] = Counter()
        self.unscaled = self.reduced = self.clipped = False
        self._settings = settings
        self._model = model
        self._weights: list[int] | None = None
        self._total: float | None = None
        self._began = RandomState()

    def part(self, size: int) -> tuple[int, int, Any, float] | None:
        """(start, stop, samples, share) of the next microbatch; None when all are done."""
        while self.done < self.count:
            start, stop = self.done, self.done + self._cut(self.count - self.done, size)
            samples = self._settings.splitter.part(self.batch, start, stop, self.count)
            share = self._share(samples, start, stop)
            if share != 0:
                return start, stop, samples, share
            # No token of it carries loss: it adds nothing, and its mean would be 0 / 0.
            self.finished(stop - start, None, 0)
        return None

    def _cut(self, left: int, most: int) -> int:
        return even_part(left, most)

    def finished(self, samples: int, loss: Any, share: float) -> None:
        self.done += samples
        self.attempt = 0
        self.partition.append(samples)
        if loss is not None:
            part = loss if share == 1 else loss * share
            self.loss = part if self.loss is None else self.loss + part

    def random_before_part(self) -> RandomState:
        """What the next part has to be put back to."""
        return RandomState()

    def start_again(self) -> None:
        """All of the batch again: its gradients were cleared, its random numbers are the same."""
        self._began.restore()
        self.done = 0
        self.partition = []
        self.loss = None
        self.unscaled = self.clipped = False

    def _share(self, samples: Any, start: int, stop: int) -> float:
        settings = self._settings
        if settings.reduction == "sum" or (start == 0 and stop == self.count):
            return 1
        if callable(settings.share):
            if self._total is None:
                self._total = float(settings.share(self.batch))
            return (
                float(settings.share(samples)) / self._total
                if self._total
                else self._by_samples(start, stop)
            )
        if self._total is None:
            self._weights = sample_weights(self.batch, self.count, settings.share, self._model)
            self._total = float(sum(self._weights)) if self._weights else 0.0
        if not self._weights or not self._total:
            return self._by_samples(start, stop)
        return sum(self._weights[start:stop]) / self._total

    def _by_samples(self, start: int, stop: int) -> float:
        return (stop - start) / self.count
