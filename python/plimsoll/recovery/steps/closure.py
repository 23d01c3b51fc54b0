"""Optimizers that look at the loss more than once a step (LBFGS): each look is a batch of microbatches."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from ...failure import Failure


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
            f"{name} computes the loss more than once a step, which cannot be combined with {what}",
            "use an optimizer that steps on gradients alone",
        )
    return True


class Closure:
    """The first look is the batch that was just done; each later one runs all its microbatches again."""

    def __init__(self, loss: Any, look_again: Callable[[], Any]) -> None:
        self._loss = loss
        self._look_again = look_again
        self._looked = False

    def __call__(self) -> Any:
        if not self._looked:
            self._looked = True
            return self._loss
        return self._look_again()
