"""Ops on known values, in host memory: at once, or later where they are many."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from ..op_facts import draws_numbers, is_view
from .later import Computation, Later, Weight, now
from .layout import by_columns, laid_out, stacked
from .rows import picked

_ATEN = torch.ops.aten
# PyTorch's own: it is replaced while a trace runs.
_FROM_NUMPY = torch.from_numpy
_HAS_NUMPY = find_spec("numpy") is not None
# Fewer values than this are computed in no time.
_MANY = 4096


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
        quicker = _QUICKER.get(func)
        return func(*args, **kwargs) if quicker is None else quicker(func, args, kwargs)
    # The card draws with a generator of its own: the host's, which shuffles, stays where it is.
    with torch.random.fork_rng(devices=()):
        return func(*args, **kwargs)


def _marked_places(func: Any, args: list, kwargs: dict) -> Any:
    """Where a mask is set: numpy finds that in a tenth of the time."""
    (mask,) = args
    dense = mask.dtype == torch.bool and mask.is_contiguous() and mask.numel() > _MANY
    if not dense or not _HAS_NUMPY:
        return func(*args, **kwargs)
    places = _FROM_NUMPY(mask.view(-1).numpy().nonzero()[0])
    if mask.dim() == 1:
        return places.unsqueeze(1)
    return torch.stack(torch.unravel_index(places, mask.shape), 1)


def _stacked(func: Any, args: list, kwargs: dict) -> Any:
    return func(*args, **kwargs) if kwargs else stacked(func, *args)


_QUICKER = {_ATEN.nonzero.default: _marked_places, _ATEN.stack.default: _stacked}
