"""Phases of a program that knows nothing of us: seen at backward and at the optimizer's step."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from . import phase

# Called at the first backward after a fork: a child that trains is one to report, a loader's worker is not.
on_first_backward: Callable[[], None] | None = None


def install() -> None:
    """Two wrappers, called once a step each. Forward is told by memory that grows after a step."""
    torch = sys.modules["torch"]
    real = torch.autograd.backward
    if getattr(real, "_plimsoll", False):
        return

    @functools.wraps(real)
    def backward(*arguments: Any, **named: Any) -> Any:
        if on_first_backward is not None:
            _first_backward()
        before = phase.current()
        phase.enter(phase.BACKWARD)
        # In an error the phase stays: the report must say where it happened.
        result = real(*arguments, **named)
        phase.enter(before)
        return result

    backward.__dict__["_plimsoll"] = True
    torch.autograd.backward = backward
    _watch_optimizers()


def _first_backward() -> None:
    global on_first_backward
    act, on_first_backward = on_first_backward, None
    if act is not None:
        act()


def _watch_optimizers() -> None:
    from torch.optim import optimizer

    before = getattr(optimizer, "register_optimizer_step_pre_hook", None)
    after = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if before is None or after is None:
        return
    before(lambda *_: phase.enter(phase.STEP))
    after(lambda *_: phase.enter(phase.IDLE))
