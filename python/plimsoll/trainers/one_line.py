"""One line for programs that do not run under `plimsoll run`: a callback, or an accelerator."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable

from ..arguments import BadType, shown
from ..bridge import phases_seen
from ..memory.gauge import gauge_of
from ..recovery.rules.decider import Fitting
from . import clipping, hugging_face, lightning, status
from .optimizer_retry import OptimizerRetry, may_be_retried
from .split_step import GROW_AFTER, PATIENCE_SECONDS, nothing


def TrainerCallback() -> Any:
    """For `Trainer(callbacks=[plimsoll.TrainerCallback()])`: steps of that trainer recover from out-of-memory."""
    transformers: Any = importlib.import_module("transformers")
    trainer = importlib.import_module("transformers.trainer")

    class Recovering(transformers.TrainerCallback):
        plimsoll = True

        def _repr_html_(self) -> str:
            return status.html("Trainer")

    hugging_face.install_for_callbacks(trainer)
    phases_seen.install()
    return Recovering()


def LightningCallback() -> Any:
    """For `Trainer(callbacks=[plimsoll.LightningCallback()])`, of `lightning` or `pytorch_lightning`."""
    package = (
        "pytorch_lightning"
        if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
        else "lightning.pytorch"
    )
    callbacks: Any = importlib.import_module(f"{package}.callbacks")

    class Recovering(callbacks.Callback):
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            lightning.install_package(type(trainer).__module__.rsplit(".trainer.", 1)[0])
            phases_seen.install()

        def _repr_html_(self) -> str:
            return status.html("Lightning")

    return Recovering()


def prepare(accelerator: Any) -> Any:
    """The same accelerator: optimizers that it prepares from now on, and its clipping, are tried again.

    Forward and backward of a loop of one's own cannot be split from outside; `plimsoll.recovering` does that.
    """
    real = getattr(accelerator, "prepare", None)
    if real is None or not hasattr(accelerator, "clip_grad_norm_"):
        fact = f"prepare takes an accelerator of accelerate, not {shown(accelerator)}"
        raise BadType(fact, "call it as accelerator = plimsoll.prepare(Accelerator())")
    if getattr(real, "_plimsoll", False):
        return accelerator

    def prepare_and_guard(*arguments: Any, **named: Any) -> Any:
        prepared = real(*arguments, **named)
        for one in prepared if isinstance(prepared, tuple) else (prepared,):
            if hasattr(one, "param_groups"):
                guard(one)
        return prepared

    prepare_and_guard.__dict__["_plimsoll"] = True
    accelerator.prepare = prepare_and_guard
    clipping.install()
    return accelerator


def guard(accelerated: Any) -> None:
    """An optimizer's step that runs out of memory is put back and tried again."""
    inner = getattr(accelerated, "optimizer", accelerated)
    if not may_be_retried(inner) or getattr(accelerated, "scaler", None) is not None:
        return
    inner.step = retry_of(inner).method(inner.step)


def retry_of(optimizer: Any, before_retry: Callable[[], None] = nothing) -> OptimizerRetry:
    """For an optimizer of a loop of one's own: what happens is told, and shown in a notebook."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gauge = gauge_of(device=str(parameters[0].device)) if parameters else gauge_of()
    fitting = Fitting("optimizer", gauge, None, GROW_AFTER, True, PATIENCE_SECONDS)
    status.follow(fitting)
    return OptimizerRetry(optimizer, fitting, nothing, before_retry)
