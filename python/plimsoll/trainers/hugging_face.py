"""The Trainer of transformers, and what inherits from it: each training step in parts that fit."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Mapping
from typing import Any, Callable

from . import clipping
from .evaluation import recovering_prediction
from .hugging_face_loss import rule_of
from .optimizer_retry import OptimizerRetry, Replaced, may_be_retried
from .split_step import SplitStep

log = logging.getLogger("plimsoll")

KNOWN = (["model", "inputs"], ["model", "inputs", "num_items_in_batch"])
VAR_NAMED = inspect.Parameter.VAR_KEYWORD
# One process and its card, or DDP: elsewhere collectives run inside forward and backward.
SEPARABLE = ("NO", "MULTI_GPU", "MULTI_CPU")


_everywhere = False


def install(module: Any) -> None:
    """`module` is transformers.trainer. Training and evaluation of every trainer go through here."""
    global _everywhere
    _everywhere = True
    install_for_callbacks(module)


def install_for_callbacks(module: Any) -> None:
    """The same for trainers that were given our callback; all others are as before."""
    trainer = getattr(module, "Trainer", None)
    for name, during in (
        ("train", attach),
        ("evaluate", attach_evaluation),
        ("predict", attach_evaluation),
    ):
        real = getattr(trainer, name, None)
        if real is not None and not hasattr(real, "_plimsoll"):
            setattr(trainer, name, _during(real, during))


def _during(real: Any, attached: Callable[[Any], Replaced]) -> Any:
    @functools.wraps(real)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        replaced = attached(self) if _is_wanted(self) else Replaced()
        try:
            return real(self, *arguments, **named)
        finally:
            replaced.put_back()

    method.__dict__["_plimsoll"] = True
    return method


def _is_wanted(trainer: Any) -> bool:
    callbacks = getattr(getattr(trainer, "callback_handler", None), "callbacks", [])
    return _everywhere or any(getattr(one, "plimsoll", False) for one in callbacks)


def attach_evaluation(trainer: Any) -> Replaced:
    """Puts a recovering prediction in place of this trainer's own, until it is put back."""
    replaced = Replaced()
    if "prediction_step" not in vars(trainer):
        prediction_step = recovering_prediction(trainer)
        if prediction_step is not None:
            replaced.set(trainer, "prediction_step", prediction_step)
    return replaced


def attach(trainer: Any) -> Replaced:
    """Puts a recovering step in place of this trainer's own, until it is put back."""
    replaced = Replaced()
    if "training_step" in vars(trainer):
        # Attached already: by an outer call of train().
        return replaced
    why = why_not(trainer)
    if why is not None:
        log.warning("plimsoll: steps of %s are not recovered: %s", type(trainer).__name__, why)
        return replaced
    recovering = RecoveringTrainer(trainer, replaced)
    replaced.set(trainer, "training_step", recovering.training_step)
    clipping.install()
    return replaced


def why_not(trainer: Any) -> str | None:
    """Why this trainer is left as it is; None where it is known."""
    if getattr(trainer.args, "auto_find_batch_size", False):
        return "auto_find_batch_size handles out-of-memory itself"
    of_trl = [kind.__name__ for kind in type(trainer).__mro__ if kind.__module__.startswith("trl.")]
    if of_trl and "SFTTrainer" not in of_trl:
        # Before the first step all its losses are the same, so that a trial would tell nothing.
        return f"the loss of {of_trl[0]} may compare rows of a batch"
    names = _parameters(trainer)
    if names not in KNOWN:
        return f"its training_step takes ({', '.join(names)}), which is not known here"
    if not callable(getattr(getattr(trainer, "accelerator", None), "backward", None)):
        return "it has no accelerator with a backward"
    kind = str(getattr(trainer.accelerator.distributed_type, "name", "NO"))
    if kind not in SEPARABLE:
        return f"{kind} runs collectives inside forward and backward"
    if getattr(trainer.args, "n_gpu", 1) > 1:
        return "one process drives several cards; start one for each with torchrun"
    return None


def _parameters(trainer: Any) -> list[str]:
    """What its training_step takes. One that hands on all it is given, as TRL's does, takes what the one below does."""
    names: list[str] = []
    for kind in type(trainer).__mro__:
        own = vars(kind).get("training_step")
        if own is None:
            continue
        found = list(inspect.signature(own).parameters.values())[1:]
        names = [one.name for one in found]
        if [one.kind for one in found] != [inspect.Parameter.VAR_POSITIONAL, VAR_NAMED]:
            break
    return names


class RecoveringTrainer:
    def __init__(self, trainer: Any, replaced: Replaced) -> None:
        self._trainer = trainer
        self._replaced = replaced
        self._real = trainer.training_step
        self._step: SplitStep | None = None
        self._for: Any = None

    def training_step(self, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        if not isinstance(inputs, Mapping):
            return self._real(model, inputs, *more, **named)
        step = self._step_for(model)
        items = more[0] if more else named.get("num_items_in_batch")
        self._items = items

        def work(part: Any, share: float) -> Any:
            # compute_loss may take labels out of what it is given: a copy, so that a retry has them.
            return self._weighted_loss(share, model, dict(part), more, named)

        loss = step.run(inputs, work)
        if self._trainer.accelerator.sync_gradients:
            step.reduce()
        return loss

    def _weighted_loss(self, share: float, model: Any, part: Any, more: Any, named: Any) -> Any:
        if share == 1:
            return self._real(model, part, *more, **named)
        accelerator = self._trainer.accelerator
        real = accelerator.backward
        scaled = Replaced()
        scaled.set(accelerator, "backward", lambda loss, **more: real(loss * share, **more))
        try:
            return self._real(model, part, *more, **named)
        finally:
            scaled.put_back()

    def _step_for(self, model: Any) -> SplitStep:
        optimizer = self._trainer.optimizer
        if self._step is None or self._for != (id(model), id(optimizer)):
            self._for = id(model), id(optimizer)
            rule = functools.partial(rule_of, self._trainer, model, lambda: self._items)
            self._step = SplitStep(model, optimizer, rule)
            self._guard_optimizer(self._step)
        return self._step

    def _guard_optimizer(self, step: SplitStep) -> None:
        accelerated = self._trainer.optimizer
        inner = getattr(accelerated, "optimizer", accelerated)
        if not may_be_retried(inner):
            return
        retry = OptimizerRetry(inner, step.fitting, step.stepped)
        if getattr(accelerated, "scaler", None) is None:
            self._replaced.set(inner, "step", retry.method(inner.step))
            return
        # With a scaler accelerate swaps the optimizer's step around each call: both of its copies go through the guard.
        original = getattr(accelerated, "_optimizer_original_step_method", None)
        from accelerate import optimizer as module

        patch = getattr(module, "patch_optimizer_step", None)
        if original is not None and patch is not None:
            guarded = retry.method(original)
            self._replaced.set(accelerated, "_optimizer_original_step_method", guarded)
            patched = patch(accelerated, guarded)
            self._replaced.set(accelerated, "_optimizer_patched_step_method", patched)
