"""Ops whose result is as large as the values say, and which have no meta kernel for it.

Where the values are known, or likely, the op is asked about them on the host, and its answer is kept. Else
the most that there can be is taken.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import small_values

_ATEN = torch.ops.aten


def _empty(size: Any, dtype: Any = torch.int64) -> Any:
    return torch.empty(size, dtype=dtype, device="meta")


def _unique(values: Any, _sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    most = values.numel()
    return (
        _empty(most, values.dtype),
        _empty(values.shape if inverse else 0),
        _empty(most if counts else 0),
    )


def _unique_consecutive(
    values: Any, inverse: bool = False, counts: bool = False, dim: Any = None
) -> Any:
    if dim is not None:
        return _unique_dim(values, dim, True, inverse, counts)
    return _unique(values, True, inverse, counts)


def _unique_dim(
    values: Any, dim: int, _sorted: bool = True, inverse: bool = False, counts: bool = False
) -> Any:
    rows = values.shape[dim]
    return (
        _empty(values.shape, values.dtype),
        _empty(rows if inverse else 0),
        _empty(rows if counts else 0),
    )


def _bincount(_values: Any, weights: Any = None, minlength: int = 0) -> Any:
    """The largest number is not known: as many counts as are asked for at least."""
    whole = weights is None
    return _empty(max(minlength, 1), torch.int64 if whole else _sum_dtype(weights))


def _sum_dtype(weights: Any) -> Any:
    return weights.dtype if weights.dtype == torch.float32 else torch.float64


def _repeated(repeats: Any, output_size: int | None = None) -> Any:
    return _empty(repeats.numel() if output_size is None else output_size, repeats.dtype)


def _from_values(most: Callable) -> Callable:
    def correct(func: Any, args: tuple, kwargs: dict) -> Any:
        known = small_values.likely_value_of(args[0])
        others = (*args[1:], *kwargs.values())
        if known is None or any(isinstance(other, torch.Tensor) for other in others):
            return most(*args, **kwargs)
        found = func(known, *args[1:], **kwargs)
        sure = small_values.is_known(args[0])
        if isinstance(found, tuple):
            return tuple(_like(one, sure) for one in found)
        return _like(found, sure)

    return correct


def _like(real: Any, sure: bool) -> Any:
    like = _empty(real.shape, real.dtype)
    if small_values.readable(like):
        small_values.remember(like, real, sure)
    return like


BY_DATA: dict[Any, Callable] = {
    _ATEN._unique2.default: _from_values(_unique),
    _ATEN.unique_consecutive.default: _from_values(_unique_consecutive),
    _ATEN.unique_dim.default: _from_values(_unique_dim),
    _ATEN.bincount.default: _from_values(_bincount),
    _ATEN.repeat_interleave.Tensor: _from_values(_repeated),
}
