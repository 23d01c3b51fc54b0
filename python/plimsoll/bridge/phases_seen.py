"""Phases of a program that knows nothing of us: seen at backward and at the optimizer's step."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from . import phase
from .loop_steps import LoopSteps

# Told of each backward and each step; None without a supervisor.
loop: LoopSteps | None = None

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
        # An optimizer that takes the loss several times in one step says nothing by their sum.
        if loop is not None and arguments and before != phase.STEP:
            loop.backward(arguments[0])
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
    after(_stepped)


def _stepped(optimizer: Any, *_: Any) -> None:
    phase.enter(phase.IDLE)
    if loop is not None:
        loop.stepped(optimizer)


def tell_steps(bridge: Any) -> None:
    """The steps of a loop go to the supervisor from now on."""
    global loop
    loop = LoopSteps(bridge)
    # Where PyTorch has none of this name, it has none that serves each kind of device.
    scaler = getattr(sys.modules["torch"].amp, "GradScaler", None)
    real = getattr(scaler, "scale", None)
    if scaler is None or real is None or getattr(real, "_plimsoll", False):
        return

    @functools.wraps(real)
    def scale(self: Any, outputs: Any) -> Any:
        result = real(self, outputs)
        if loop is not None:
            loop.scaled(outputs, result)
        return result

    scale.__dict__["_plimsoll"] = True
    scaler.scale = scale
