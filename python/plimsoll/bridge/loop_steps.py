"""Steps of a loop that knows nothing of us, told to its supervisor: seen at backward and at the optimizer's step."""

from __future__ import annotations

import logging
import os
import sys
import time
import weakref
from typing import Any

from ..memory.gauge import gauge_of

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
