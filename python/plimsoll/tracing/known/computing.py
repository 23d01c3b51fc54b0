"""Ops on known values, in host memory: at once, or later where they are many."""

from __future__ import annotations

from typing import Any

import torch

from ..op_facts import draws_numbers, is_view
from .later import Computation, Later, Weight, now
from .layout import by_columns, laid_out
from .quicker import QUICKER
from .rows import picked


def compute(
    func: Any, args: list, kwargs: dict, results: Any, strides: tuple[int, ...] | None = None
) -> list[Any]:
    """What each of the results would hold. `strides`: of the first argument, where it goes by these."""

    def computed(args: list, kwargs: dict) -> list[Any]:
        if strides is not None:
            args = [laid_out(args[0], strides), *args[1:]]
        made = run(func, args, kwargs)
        parts = list(made) if isinstance(made, (tuple, list)) else [made]
        return parts if is_view(func) else list(map(by_columns, parts))

    weight = Weight(args, kwargs)
    if draws_numbers(func) or not weight.may_wait(results):
        return computed(now(args), now(kwargs)) if weight.depth else computed(args, kwargs)
    computation = Computation(computed, args, kwargs, weight.depth + 1, func, picked)
    return [
        None if one is None else Later(computation, place, one.shape)
        for place, one in enumerate(results)
    ]


def run(func: Any, args: list, kwargs: dict) -> Any:
    if not draws_numbers(func):
        quicker = QUICKER.get(func)
        return func(*args, **kwargs) if quicker is None else quicker(func, args, kwargs)
    # The card draws with a generator of its own: the host's, which shuffles, stays where it is.
    with torch.random.fork_rng(devices=()):
        return func(*args, **kwargs)
