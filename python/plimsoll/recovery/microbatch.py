"""One microbatch as a `with` block: what runs out of memory inside it is brought back."""

from __future__ import annotations

from typing import Any

from ..bridge import phase
from .random_state import RandomState


class Microbatch:
    """Some samples of a batch, and the share of the batch's mean loss that they carry."""

    def __init__(self, step: Any, run: Any, start: int, stop: int, samples: Any, share: float) -> None:
        self.batch = samples
        self.start = start
        self.stop = stop
        self.share = share
        self.used = False
        self._step = step
        self._run = run
        self._loss: Any = None

    def __len__(self) -> int:
        return self.stop - self.start

    def __enter__(self) -> "Microbatch":
        self.used = True
        self._random = RandomState()
        self._step._gradients.mark()
        self._step._statistics.mark()
        phase.enter(phase.FORWARD)
        return self

    def backward(self, loss: Any) -> None:
        """Adds this microbatch's gradients, scaled so that all of them sum to the batch's."""
        scaled = loss if self.share == 1 else loss * self.share
        if self._step._scaler is not None:
            scaled = self._step._scaler.scale(scaled)
        phase.enter(phase.BACKWARD)
        scaled.backward()
        self._loss = loss.detach().float()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if error is None:
            self._run.finished(len(self), self._loss, self.share)
            self._step._part_done(self._run)
            return False
        found = self._step._recognise(error)
        if found is None:
            return False
        self._loss = None
        # Decided while the frames still hold everything; from here on nothing may refer to them.
        return self._step._failed(self._run, self, error, found, phase.current())

    def put_back_random(self) -> None:
        self._random.restore()
