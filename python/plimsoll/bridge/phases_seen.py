"""Phases of a program that knows nothing of us: seen at backward and at the optimizer's step."""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
import weakref
from typing import Any, Callable

from ..memory.gauge import gauge_of
from . import phase

# Steps of a loop that knows nothing of us, told to its supervisor: seen at backward and at the optimizer's step.

log = logging.getLogger("plimsoll")

# They multiply the loss by a factor of their own before its backward: what is seen there is not the loss.
OTHER_SCALERS = ("deepspeed", "torch.distributed.fsdp.sharded_grad_scaler")


class LoopSteps:
    """Nothing of it raises into the program. A trainer, or a step of the SDK, tells of its own steps instead."""

    def __init__(self, bridge: Any) -> None:
        self._bridge = bridge
        self._who = f"loop-{os.getpid()}"
        self._first: weakref.ref[Any] | None = None
        # Losses of several optimizers are several losses: none of them is that of the step.
        self._is_only = True
        self._has_told = False
        self._number = 0
        self._loss: Any = None
        self._scaled: tuple[Any, Any] | None = None

    def scaled(self, loss: Any, result: Any) -> None:
        """What a GradScaler made of a loss: the loss itself is what people know."""
        self._scaled = (result, loss)

    def backward(self, root: Any) -> None:
        """Before a backward; those of one step are parts of its loss, as an accumulation has them."""
        try:
            scaled, self._scaled = self._scaled, None
            loss = scaled[1] if scaled is not None and scaled[0] is root else root
            if not self._is_only or not _is_plain_scalar(loss) or _is_capturing():
                return
            part = loss.detach().clone()
            self._loss = part if self._loss is None else self._loss + part
        except Exception as error:
            log.debug("plimsoll: a loss was not read: %s", error)

    def stepped(self, optimizer: Any) -> None:
        """After a step of an optimizer. Those of the first one are counted."""
        try:
            self._count(optimizer)
        except Exception as error:
            log.debug("plimsoll: a step was not told: %s", error)

    def _count(self, optimizer: Any) -> None:
        first = None if self._first is None else self._first()
        if first is None:
            self._first = weakref.ref(optimizer)
        elif first is not optimizer:
            self._is_only = False
            return
        self._number += 1
        loss, self._loss = self._loss, None
        is_due = self._bridge.step_is_due(time.monotonic(), self._who)
        if not is_due or _is_capturing() or (self._bridge.has_training and not self._has_told):
            return
        self._has_told = True
        is_sure = self._is_only and not any(name in sys.modules for name in OTHER_SCALERS)
        value = float(loss) if is_sure and loss is not None else None
        parameter = optimizer.param_groups[0]["params"][0]
        peak = gauge_of(device=str(parameter.device)).figures()["peakAllocatedBytes"]
        self._bridge.report_loop(self._number, peak, self._who, value)


def _is_plain_scalar(value: Any) -> bool:
    """Not one that lies on several ranks: to read it, all of them would have to."""
    return type(value) is sys.modules["torch"].Tensor and value.numel() == 1


def _is_capturing() -> bool:
    cuda = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


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
