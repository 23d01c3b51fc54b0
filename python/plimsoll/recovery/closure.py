"""Optimizers that look at the loss more than once a step (LBFGS): each look is a batch of microbatches."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from ..failure import Failure
from .batch_run import BatchRun


def needs_closure(optimizer: Any) -> bool:
    """Whether its step cannot be made without a function that computes the loss again."""
    try:
        closure = inspect.signature(optimizer.step).parameters.get("closure")
    except (TypeError, ValueError):
        return False
    return closure is not None and closure.default is inspect.Parameter.empty


def check_closure(optimizer: Any, scaler: Any, world: int) -> bool:
    if not needs_closure(optimizer):
        return False
    name = type(optimizer).__name__
    if scaler is not None or world > 1:
        what = "a GradScaler" if scaler is not None else "several ranks"
        raise Failure(
            "closure-unsupported",
            f"{name} computes the loss more than once a step, which does not go with {what}",
            "use an optimizer that steps on gradients alone",
        )
    return True


class Closure:
    """The first look is the batch that was just done; each later one runs all its microbatches again."""

    def __init__(self, step: Any, run: BatchRun, loss: Callable[[Any], Any]) -> None:
        self._step = step
        self._run = run
        self._loss = loss
        self._looked = False

    def __call__(self) -> Any:
        if not self._looked:
            self._looked = True
            return self._run.loss
        step = self._step
        step._gradients.clear()
        again = BatchRun(self._run.batch, self._run.count, step._settings, step.model)
        step._evaluate(again, self._loss)
        step._clip_once(again)
        return again.loss
