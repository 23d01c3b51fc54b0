"""A training step that survives running out of memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Callable

from ...arguments import function
from ...bridge import phase
from ...distributed import ranks
from ...failure import Failure
from ...memory.gauge import HostGauge, gauge_of
from ...memory.host_cap import fail_before_the_kernel_does
from ..parts.batch_run import BatchRun
from ..restore.optimizer_guard import OptimizerGuard
from ..rules.fitting import Fitting
from .closure import check_closure
from .microbatch import Microbatch
from .optimizer_step import OptimizerStep
from .program import declared_rungs, loss_of
from .retry import Retry
from .settings import Settings, settings
from .training import Training

# All ranks make their steps in the same order, so the same number means the same step.
_numbers = itertools.count()


def autocasting(dtype: Any, device: str) -> AbstractContextManager[Any]:
    """Autocast around the loss of a microbatch, where the program asked for it."""
    if dtype is None:
        return nullcontext()
    import torch

    return torch.autocast("cuda" if device.startswith("cuda") else "cpu", dtype=dtype)


class RecoveringStep:
    """Runs a batch as microbatches, clips and steps once. Made by `plimsoll.recovering`."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any], Any] | None = None,
        *,
        microbatch: int | None = None,
        clip: float | None = None,
        scaler: Any = None,
        autocast: Any = None,
        share: Any = "auto",
        reduction: str = "mean",
        split: Callable[[Any, int, int], Any] | None = None,
        size: Callable[[Any], int] | None = None,
        backup: str = "first",
        grow_after: int = 20,
        patience: float = 60.0,
        rungs: dict[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.partition: list[int] = []
        self._loss = loss
        self._settings: Settings = settings(
            size, split, share, reduction, clip, autocast, patience, rungs
        )
        self._training = Training(model, optimizer, scaler)
        self._gauge = gauge_of(model)
        # A copy in the host's memory is cheap where the weights lie there, and slow where they lie on a card.
        on_host = isinstance(self._gauge, HostGauge)
        self._guard = OptimizerGuard(optimizer, backup, None if on_host else self._room)
        if on_host:
            fail_before_the_kernel_does()
        climbable = declared_rungs(model, self._settings.rungs)
        self._ranks = ranks.of(model)
        self._needs_closure = check_closure(optimizer, self._training.scaler, self._ranks.world)
        self._fitting = Fitting(
            f"step-{next(_numbers)}",
            self._gauge,
            microbatch,
            grow_after,
            may_differ=self._ranks.sizes_may_differ,
            patience=self._settings.patience,
        )
        self.events = self._fitting.decider.events
        self._retry = Retry(self._training, self._fitting, self._ranks, climbable)
        self._optimizer_step = OptimizerStep(
            self._training, self._guard, self._settings.clip, self._ranks, self._fitting
        )
        self._fitting.work.declare(["microbatch", *climbable], self._ranks.rank, self._ranks.world)
        self._training.before_batch.warn()

    @property
    def steps(self) -> int:
        """Steps that were made."""
        return self._fitting.work.steps

    @property
    def microbatch(self) -> int | None:
        """The size of the next microbatch; None before the first batch. It can be set."""
        return self._fitting.sizer.size

    @microbatch.setter
    def microbatch(self, size: int | None) -> None:
        self._fitting.sizer.set(size)

    def __call__(self, batch: Any, loss: Callable[[Any], Any] | None = None) -> Any:
        """One step on one batch; the batch's loss, detached. Without a loss yet, takes it (a decorator)."""
        use = function("loss", loss) or self._loss
        if use is None:
            if callable(batch):
                self._loss = batch
                return self
            raise Failure(
                "no-loss",
                "this step has no loss",
                "pass loss=lambda batch: ..., or decorate one",
            )
        run = self._begin(batch)
        look_again = partial(self._look_again, run, use) if self._needs_closure else None
        while True:
            self._evaluate(run, use)
            if self._finish(run, look_again):
                return run.loss

    def microbatches(self, batch: Any) -> Iterator[Microbatch]:
        """For loops of one's own: `with` each microbatch; after the last, the optimizer has stepped."""
        if self._needs_closure:
            raise Failure(
                "closure-needed",
                f"{type(self.optimizer).__name__} computes the loss more than once a step",
                "give the loss to plimsoll.recovering and call step(batch)",
            )
        run = self._begin(batch)
        while True:
            piece = self._next(run)
            if piece is None:
                if self._finish(run):
                    return
                continue
            with self._ranks.no_sync():
                yield piece
            if not piece.used:
                raise Failure(
                    "microbatch-unused",
                    "a microbatch was not entered",
                    "write: with microbatch: ...",
                )

    def __enter__(self) -> RecoveringStep:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Says goodbye to the other ranks. Gradients, model and optimizer are left as they are."""
        self._ranks.close()

    def report(self) -> dict[str, Any]:
        """What happened so far: sizes, recoveries and why, and the line of measured peaks."""
        return self._fitting.report()

    def _room(self) -> int:
        return self._gauge.capacity_bytes() - self._gauge.used_bytes()

    # One batch, from its first microbatch to the optimizer's step.

    def _begin(self, batch: Any) -> BatchRun:
        self._guard.check()
        self._fitting.take_growth()
        count = self._settings.splitter.size(batch)
        self._training.gradients.clear()
        # Without gradients: what is used now is what steps rest at.
        self._fitting.sizer.begin(count)
        self._fitting.foresee(count)
        self._training.before_batch.mark()
        self._ranks.begin()
        return BatchRun(batch, count, self._settings, self.model)

    def _next(self, run: BatchRun) -> Microbatch | None:
        part = run.part(self._fitting.sizer.size or run.count)
        return (
            None
            if part is None
            else Microbatch(self._training, self._fitting, self._retry, run, *part)
        )

    def _evaluate(self, run: BatchRun, loss: Callable[[Any], Any]) -> None:
        """The loss and the gradients of what is left of a batch."""
        while True:
            piece = self._next(run)
            if piece is None:
                return
            with piece, self._ranks.no_sync():
                self._forward_and_backward(piece, loss)

    def _forward_and_backward(self, piece: Microbatch, loss: Callable[[Any], Any]) -> None:
        """A frame of its own: it has ended when the error arrives, and is cleared with all that it held."""
        with autocasting(self._settings.autocast, self._gauge.device):
            value = loss_of(loss(piece.batch))
        piece.backward(value)

    def _finish(self, run: BatchRun, look_again: Callable[[], Any] | None = None) -> bool:
        """The optimizer's step; False where the batch has to be done again."""
        phase.enter(phase.STEP)
        if not self._optimizer_step.make(run, look_again):
            return False
        self._training.gradients.clear()
        self.partition = run.partition
        self._fitting.work.losses = [] if run.loss is None else [run.loss]
        phase.enter(phase.IDLE)
        self._fitting.batch_done(run)
        return True

    def _look_again(self, run: BatchRun, loss: Callable[[Any], Any]) -> Any:
        """The batch's loss and gradients once more, in the midst of the optimizer's step."""
        self._training.gradients.clear()
        again = BatchRun(run.batch, run.count, self._settings, self.model)
        self._evaluate(again, loss)
        self._optimizer_step.clip(again)
        return again.loss
