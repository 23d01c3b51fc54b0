"""One microbatch as a `with` block: what runs out of memory inside it is recovered."""

from __future__ import annotations

from typing import Any

from ...bridge import phase
from ...memory.clean_up import drop_dead_frames
from ..parts.batch_run import BatchRun
from ..restore import graph
from ..rules.fitting import Fitting
from .retry import Retry
from .training import Training


class Microbatch:
    """Some samples of a batch, and the share of the batch's mean loss that they carry."""

    def __init__(
        self,
        training: Training,
        fitting: Fitting,
        retry: Retry,
        run: BatchRun,
        start: int,
        stop: int,
        samples: Any,
        share: float,
    ) -> None:
        self.batch = samples
        self.start = start
        self.stop = stop
        self.share = share
        self.used = False
        self._training = training
        self._fitting = fitting
        self._retry = retry
        self._run = run
        self._loss: Any = None

    def __len__(self) -> int:
        return self.stop - self.start

    def __enter__(self) -> Microbatch:
        self.used = True
        self._random = self._run.random_before_part()
        self._graph = graph.mark()
        self._training.mark()
        phase.enter(phase.FORWARD)
        return self

    def backward(self, loss: Any) -> None:
        """Adds this microbatch's gradients, scaled so that all of them sum to the batch's."""
        scaled = self._training.scaled(loss if self.share == 1 else loss * self.share)
        phase.enter(phase.BACKWARD)
        scaled.backward()
        self.counted(loss if loss.element_size() > 4 else loss.detach().float())

    def counted(self, loss: Any) -> None:
        """Its gradients were added; halves lose digits when parts are summed, so a part's loss is not in halves."""
        self._loss = loss.detach()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if error is None:
            self._run.finished(len(self), self._loss, self.share)
            self._fitting.part_done(self._run)
            return False
        found = self._fitting.out_of_memory(error)
        if found is None:
            return False
        self._loss = None
        # Decided while the frames still hold everything; from here on nothing may refer to them.
        frame = trace.tb_frame
        del trace
        if not self._retry.decide(self._run, len(self), found, phase.current()):
            return False
        drop_dead_frames(error)
        graph.let_go(frame, self._graph)
        self._retry.prepare(self._run, len(self), self._random)
        return True
