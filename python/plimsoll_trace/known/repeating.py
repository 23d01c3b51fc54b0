"""Values that repeat along a dimension, such as a row of a mask that is expanded to one row for each position.

Masks of long texts have a row for each position, and all rows are alike: 4 texts of 4,096 words make 67 million values,
of which 16,384 differ. Each of these is computed once.
"""

from __future__ import annotations

from typing import Any

import torch

from ..op_facts import is_pointwise, is_view
from .later import Later
from .layout import goes_by_strides

_ATEN = torch.ops.aten
_EXPAND = _ATEN.expand.default


def repeats(func: Any, values: list[Any], most: int) -> bool:
    """Whether an op makes values that repeat, of these or of what is known of them; `most`: that may be computed."""
    if func is _EXPAND:
        return values[0] is not None and values[0].shape.numel() <= most
    if _is_plain_view(func):
        return is_repeating(values[0])
    if not is_pointwise(func):
        return False
    waiting = [value for value in values if isinstance(value, Later)]
    return any(map(is_repeating, values)) and all(v.shape.numel() <= most for v in waiting)


def compute_once(func: Any, args: list, kwargs: dict, shape: torch.Size, most: int) -> Any:
    """The result of an op of which `repeats` is true, each value computed once; None where more than `most` differ."""
    if _is_plain_view(func):
        return func(*args, **kwargs)
    given = [one for one in args if isinstance(one, torch.Tensor)]
    alone = [
        dim
        for dim in range(-len(shape), 0)
        if all(one.dim() < -dim or one.shape[dim] == 1 or one.stride(dim) == 0 for one in given)
    ]
    differ = 1
    for dim in range(-len(shape), 0):
        differ *= 1 if dim in alone else shape[dim]
    if differ > most:
        return None
    parts = [_first_of(one, alone) if isinstance(one, torch.Tensor) else one for one in args]
    return func(*parts, **kwargs).expand(shape)


def is_repeating(value: Any) -> bool:
    """Whether places of a tensor share memory, so that none can be written to alone."""
    return isinstance(value, torch.Tensor) and any(
        stride == 0 and size > 1 for stride, size in zip(value.stride(), value.shape)
    )


def _is_plain_view(func: Any) -> bool:
    """One that finds its part whatever the strides are."""
    return is_view(func) and not goes_by_strides(func)


def _first_of(value: torch.Tensor, dims: list[int]) -> torch.Tensor:
    for dim in dims:
        if -dim <= value.dim():
            value = value.narrow(dim, 0, 1)
    return value
