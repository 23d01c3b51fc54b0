"""A Trainer's evaluation in parts: predictions end to end, the loss by what each part of it averages over."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from ..recovery.function import RecoveringFunction
from ..recovery.parts.shares import sample_weights
from . import status
from .counting import samples_of
from .generation import padded
from .handled import handled_by

KNOWN = ["model", "inputs", "prediction_loss_only", "ignore_keys"]


def recovering_prediction(trainer: Any) -> Any:
    """In place of `trainer.prediction_step`; None where its signature is not the known one."""
    real = trainer.prediction_step
    if list(inspect.signature(real).parameters)[: len(KNOWN)] != KNOWN:
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
    return inputs, (_mean(losses, inputs, trainer), _concatenated(logits), _concatenated(labels))


def _mean(losses: Any, inputs: list[Any], trainer: Any) -> Any:
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
