"""Ops on many values that numpy computes in a fraction of PyTorch's time. The results are the same."""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from .layout import stacked

_ATEN = torch.ops.aten
# PyTorch's own: it is replaced while a trace runs.
_FROM_NUMPY = torch.from_numpy
_HAS_NUMPY = find_spec("numpy") is not None
# Fewer values than this are computed in no time.
_MANY = 4096
# The types that numpy compares quickly, and the numbers of Python that PyTorch turns into these.
_COMPARED = {torch.float32: (int, float), torch.float64: (int, float), torch.int64: (int,)}
# A larger number may have no place in a type.
_LARGEST_NUMBER = 1e30
# So many can be numbered.
_ROWS_IN_A_BYTE = 127
_Run = Callable[[Any, list, dict], Any]


def _marked_places(func: Any, args: list, kwargs: dict) -> Any:
    """Where a mask is set."""
    (mask,) = args
    dense = mask.dtype in (torch.bool, torch.uint8) and mask.is_contiguous()
    if not dense or mask.numel() <= _MANY:
        return func(*args, **kwargs)
    marks = mask.view(-1).numpy()
    if mask.dtype == torch.uint8:
        # Numpy searches booleans far quicker.
        marks = marks != 0
    places = _FROM_NUMPY(marks.nonzero()[0])
    if mask.dim() == 1:
        return places.unsqueeze(1)
    return torch.stack(torch.unravel_index(places, mask.shape), 1)


def _stacked(func: Any, args: list, kwargs: dict) -> Any:
    return func(*args, **kwargs) if kwargs else stacked(func, *args)


def _comparing(compare: Callable[[Any, Any], Any]) -> _Run:
    """Each value with another, or all with one number."""

    def run(func: Any, args: list, kwargs: dict) -> Any:
        if kwargs or len(args) != 2 or not _are_comparable(*args):
            return func(*args, **kwargs)
        first, second = args
        values = first.numpy()
        # A number gets the type of the values, as in PyTorch.
        other = second.numpy() if isinstance(second, torch.Tensor) else values.dtype.type(second)
        return _FROM_NUMPY(compare(values, other))

    return run


def _are_comparable(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor) or first.numel() <= _MANY:
        return False
    numbers = _COMPARED.get(first.dtype, ())
    if first.requires_grad or not numbers:
        return False
    if not isinstance(second, torch.Tensor):
        return type(second) in numbers and abs(second) < _LARGEST_NUMBER
    return second.dim() > 0 and second.dtype == first.dtype and not second.requires_grad


def _largest_along(func: Any, args: list, kwargs: dict) -> Any:
    """The largest values along a dimension and where they stand, the first of equals."""
    values, *where = args
    if kwargs or len(where) != 1 or values.dim() != 2 or values.dtype != torch.float32:
        return func(*args, **kwargs)
    if values.numel() <= _MANY or not values.is_contiguous() or values.requires_grad:
        return func(*args, **kwargs)
    found: tuple[Any, Any] | None
    if where[0] in (1, -1):
        found = _in_each_row(values)
    else:
        found = _in_each_column(values.numpy()) if values.shape[0] <= _ROWS_IN_A_BYTE else None
    # PyTorch takes NaN for the largest value; numpy is not relied on for that.
    if found is None or bool(found[0].isnan().any()):
        return func(*args, **kwargs)
    return found


def _in_each_row(values: Any) -> tuple[Any, Any]:
    places = _FROM_NUMPY(values.numpy().argmax(1))
    return values.gather(1, places.unsqueeze(1)).squeeze(1), places


def _in_each_column(rows: Any) -> tuple[Any, Any]:
    """Row after row: going down each column would take five times as long."""
    import numpy as np

    largest = rows[0].copy()
    places = np.zeros(rows.shape[1], np.int8)
    is_larger = np.empty(rows.shape[1], np.bool_)
    for number in range(1, len(rows)):
        np.greater(rows[number], largest, out=is_larger)
        np.maximum(rows[number], largest, out=largest)
        # A later row has a higher number.
        np.maximum(places, is_larger.view(np.int8) * np.int8(number), out=places)
    return _FROM_NUMPY(largest), _FROM_NUMPY(places.astype(np.int64))


def _by_numpy() -> dict[Any, _Run]:
    found: dict[Any, _Run] = {_ATEN.nonzero.default: _marked_places, _ATEN.max.dim: _largest_along}
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        compared = _comparing(getattr(operator, name))
        packet = getattr(_ATEN, name)
        found[packet.Scalar] = found[packet.Tensor] = compared
    return found


# By the op: a function that runs it.
QUICKER: dict[Any, _Run] = {
    _ATEN.stack.default: _stacked,
    **(_by_numpy() if _HAS_NUMPY else {}),
}
