"""What a part of a batch weighs in a loss that somebody else computes: found out by trying a few samples."""

from __future__ import annotations

import math
from typing import Any, Callable

from ..memory.out_of_memory import recognise
from ..recovery.parts import Splitter, sample_weights
from ..recovery.restore import RandomState
from .window import SAMPLES, SUM, TOKENS

# The loss of some samples is compared with those of their halves: rounding of the type it was computed in.
TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
COARSE = 2e-2
# Samples in each of the two parts that are tried; one where the batch has fewer, or they do not fit.
TRIED = 2


def rule_of(
    loss: Callable[[Any], Any], batch: Any, count: int, splitter: Splitter, model: Any, coarse: bool
) -> str | None:
    """How parts of this loss add up to the whole; None where they do not.

    A sum over a number that is known beforehand adds up as it is, a mean by labels or by samples. A loss
    that compares the samples of a batch does none of these.
    """
    weights = sample_weights(batch, count, "auto", model) or [1] * count
    for each in (TRIED, 1):
        if 2 * each > count:
            continue
        try:
            return _by_trial(loss, batch, weights, splitter, model, coarse, each)
        except Exception as error:
            if each == 1 or recognise(error) is None:
                raise
    return None


def _by_trial(
    loss: Callable[[Any], Any],
    batch: Any,
    weights: list[int],
    splitter: Splitter,
    model: Any,
    coarse: bool,
    each: int,
) -> str | None:
    """The loss of some samples beside the losses of their two halves."""
    count = len(weights)
    halves = [sum(weights[i : i + each]) for i in range(count - each + 1)]
    # Halves of unlike weights tell a mean over labels from one over samples.
    at = max(
        range(count - 2 * each + 1),
        key=lambda i: (min(halves[i], halves[i + each]) > 0, abs(halves[i] - halves[i + each])),
    )
    middle, end = at + each, at + 2 * each
    with Trial(model):
        both, first, second = (
            loss(splitter.part(batch, start, stop, count))
            for start, stop in ((at, end), (at, middle), (middle, end))
        )
    near = COARSE if coarse else TOLERANCE.get(str(both.dtype).removeprefix("torch."), COARSE)
    whole, one, two = float(both), float(first), float(second)
    left, right = halves[at], halves[middle]
    rules = {SUM: one + two, SAMPLES: (one + two) / 2}
    if left + right > 0:
        rules = {
            SUM: one + two,
            TOKENS: (one * left + two * right) / (left + right),
            SAMPLES: (one + two) / 2,
        }
    known = {rule: abs(value - whole) for rule, value in rules.items() if math.isfinite(value)}
    fits = [rule for rule, off in known.items() if off <= near * max(abs(whole), 1e-6)]
    return fits[0] if fits else None


class Trial:
    """Without gradients, dropout and traces: random numbers and modes are as before when it ends."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __enter__(self) -> None:
        import torch

        self._random = RandomState()
        self._modes = [(module, module.training) for module in self._model.modules()]
        self._model.eval()
        self._no_grad = torch.no_grad()
        self._no_grad.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._no_grad.__exit__(*error)
        for module, training in self._modes:
            module.training = training
        self._random.restore()
