"""The Trainer of transformers, and what inherits from it: each training step in parts that fit."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Mapping
from typing import Any, Callable

from ..memory.out_of_memory import recognise
from ..recovery.function import RecoveringFunction
from ..recovery.parts import Splitter, sample_weights
from . import clipping, status, weighing
from .counting import samples_of
from .generation import padded
from .handled import handled_by
from .optimizer_retry import OptimizerRetry, Replaced, may_be_retried
from .split_step import SplitStep

log = logging.getLogger("plimsoll")

KNOWN = (["model", "inputs"], ["model", "inputs", "num_items_in_batch"])
VAR_NAMED = inspect.Parameter.VAR_KEYWORD
# One process and its card, or DDP: elsewhere collectives run inside forward and backward.
SEPARABLE = ("NO", "MULTI_GPU", "MULTI_CPU")


_everywhere = False


def rule_of(
    trainer: Any,
    model: Any,
    items: Callable[[], Any],
    batch: Any,
    count: int,
    splitter: Splitter,
) -> str | None:
    """How the loss of a Trainer adds up: its own compute_loss is asked, since programs override it."""
    args = trainer.args
    coarse = any(getattr(args, name, False) for name in ("fp16", "bf16")) or _is_half(model)

    def loss(part: Any) -> Any:
        inputs = trainer._prepare_inputs(dict(part))
        number = items()
        named = {} if number is None else {"num_items_in_batch": number}
        with trainer.compute_loss_context_manager():
            return trainer.compute_loss(getattr(model, "module", model), inputs, **named)

    try:
        return weighing.rule_of(loss, batch, count, splitter, model, coarse)
    except Exception as error:
        # One or two samples alone are not a batch of this loss; or even they do not fit.
        short = " (out of memory)" if recognise(error) is not None else ""
        log.warning("plimsoll: the loss of a few samples could not be computed%s: %s", short, error)
        return None


def _is_half(model: Any) -> bool:
    first = next(iter(model.parameters()), None)
    return first is not None and first.element_size() < 4


# A Trainer's evaluation in parts: predictions end to end, the loss by what each part of it averages over.

PREDICTION_ARGUMENTS = ["model", "inputs", "prediction_loss_only", "ignore_keys"]


def recovering_prediction(trainer: Any) -> Any:
    """In place of `trainer.prediction_step`; None where its signature is not the known one."""
    real = trainer.prediction_step
    if (
        list(inspect.signature(real).parameters)[: len(PREDICTION_ARGUMENTS)]
        != PREDICTION_ARGUMENTS
    ):
        return None

    def predict(inputs: Any, model: Any, more: Any, named: Any) -> Any:
        return inputs, real(model, dict(inputs), *more, **named)

    function = RecoveringFunction(predict, join=lambda done: joined(done, trainer))

    def prediction_step(model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        if samples_of(inputs) is None or handled_by() is not None:
            return real(model, inputs, *more, **named)
        status.follow_evaluation(function.calls().fitting)
        return function(inputs, model, more, named)[1]

    return prediction_step


def joined(done: list[tuple[Any, Any]], trainer: Any) -> tuple[Any, Any]:
    """(inputs, (loss, logits, labels)) of each part as one."""
    inputs = [part for part, _ in done]
    losses, logits, labels = zip(*(result for _, result in done))
    return inputs, (
        _mean_loss(losses, inputs, trainer),
        _concatenated(logits),
        _concatenated(labels),
    )


def _mean_loss(losses: Any, inputs: list[Any], trainer: Any) -> Any:
    if losses[0] is None:
        return None
    weights = [_weight(part, trainer) for part in inputs]
    total = sum(weights)
    known = [(loss, weight) for loss, weight in zip(losses, weights) if weight]
    return sum(loss * weight for loss, weight in known) / total if total else losses[0]


def _weight(part: Any, trainer: Any) -> int:
    """What the mean of a part was taken over: as the trainer counted it, else by labels or samples."""
    counted = trainer._get_num_items_in_batch([part], "cpu") if _counts(trainer) else None
    if counted is not None:
        return int(counted)
    count = samples_of(part) or 1
    weights = sample_weights(part, count, "auto", trainer.model)
    return count if weights is None else sum(weights)


def _counts(trainer: Any) -> bool:
    """Whether this version tells the loss of an evaluation over how many labels it is taken."""
    method, name = type(trainer).prediction_step, "_get_num_items_in_batch"
    if getattr(trainer.args, "predict_with_generate", False) or not hasattr(trainer, name):
        return False
    own = [vars(kind).get("prediction_step") for kind in type(trainer).__mro__]
    codes = [getattr(one, "__code__", None) for one in (method, *own)]
    return any(code is not None and name in code.co_names for code in codes)


def _concatenated(values: Any) -> Any:
    first = values[0]
    if first is None:
        return None
    if isinstance(first, Mapping):
        made: Any = type(first)
        return made({key: _concatenated([value[key] for value in values]) for key in first})
    if isinstance(first, (list, tuple)):
        return type(first)(_concatenated([value[i] for value in values]) for i in range(len(first)))
    return padded(list(values), -100, sys.modules["torch"])


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
