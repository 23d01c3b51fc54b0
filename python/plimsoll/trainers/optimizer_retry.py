"""The step of an optimizer that somebody else calls: rolled back and tried again when memory runs out in it."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import HostGauge
from ..recovery.restore import OptimizerGuard
from ..recovery.rules.decider import Fitting
from ..recovery.rules.ladder import GIVE_BACK, Decision
from ..recovery.steps.step import MAX_RETRIES, needs_closure
from .handled import handled_by

WHY = "the optimizer's step was put back; cached memory was given back"


class OptimizerRetry:
    """In place of `optimizer.step`; a closure is called once, and its loss is what a second try is told."""

    def __init__(
        self,
        optimizer: Any,
        fitting: Fitting,
        stepped: Callable[[], None],
        before_retry: Callable[[], None] | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._fitting = fitting
        self._stepped = stepped
        self._before_retry = before_retry
        gauge = fitting.gauge
        on_host = isinstance(gauge, HostGauge)
        room = None if on_host else lambda: gauge.capacity_bytes() - gauge.used_bytes()
        self._guard = OptimizerGuard(optimizer, "first", room)

    def method(self, real: Callable[..., Any]) -> Any:
        """Bound as the optimizer's own is: schedulers and scalers look at it."""
        plain = getattr(real, "__func__", real)

        @functools.wraps(plain)
        def step(_: Any, closure: Any = None, *arguments: Any, **named: Any) -> Any:
            return self._step(real, closure, arguments, named)

        return types.MethodType(step, self._optimizer)

    def _step(self, real: Any, closure: Any, arguments: Any, named: Any) -> Any:
        self._guard.check()
        loss = once(closure)
        for attempt in range(MAX_RETRIES + 1):
            try:
                self._guard.before_step()
                result = real(*(() if loss is None else (loss,)), *arguments, **named)
                self._guard.after_step()
                self._stepped()
                return result
            except Exception as error:
                if not self._may_retry(error, attempt):
                    raise
                drop_dead_frames(error)
            give_back_caches()
            if self._before_retry is not None:
                self._before_retry()
        return None

    def _may_retry(self, error: Exception, attempt: int) -> bool:
        found = self._fitting.out_of_memory(error)
        if found is None or handled_by() is not None:
            return False
        last = attempt >= MAX_RETRIES
        size = self._fitting.sizer.size or 1
        action = "raise" if last else "retry"
        self._fitting.note(Decision(action, size, GIVE_BACK, WHY), size, found, "step")
        if last:
            return False
        self._fitting.decider.report_rung(GIVE_BACK, f"{WHY.capitalize()}.")
        self._guard.roll_back()
        return True


def once(closure: Any) -> Callable[[], Any] | None:
    """Forward and backward run before the step, outside of its retries."""
    if closure is None:
        return None
    import torch

    with torch.enable_grad():
        loss = closure()
    return lambda: loss


def may_be_retried(optimizer: Any) -> bool:
    return hasattr(optimizer, "param_groups") and not needs_closure(optimizer)


class Replaced:
    """Attributes of objects, replaced for a while; each is put back as it was, or taken away again."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, bool, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        own = name in vars(owner)
        self._before.append((owner, name, own, vars(owner).get(name)))
        setattr(owner, name, value)

    def put_back(self) -> None:
        while self._before:
            owner, name, own, value = self._before.pop()
            if own:
                setattr(owner, name, value)
            else:
                delattr(owner, name)
