"""Rows of large values that wait to be computed: of the ops that lead to them, only these rows are computed.

A detector moves each of a million anchors by what it has learned, and goes on with the few thousand of the best scores.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .later import Later, now
from .layout import by_columns

_ATEN = torch.ops.aten
_INDEX, _SLICE = _ATEN.index.Tensor, _ATEN.slice.Tensor
_PICKING = {_INDEX, _SLICE}
# Where more than this part of the rows is picked, all are computed at once.
_MOST = 1 / 4
# Each value of a result follows from those at the same place.
_POINTWISE = {
    _ATEN.abs.default,
    _ATEN.add.Tensor,
    _ATEN.clamp.default,
    _ATEN.clamp_max.default,
    _ATEN.clamp_min.default,
    _ATEN.clone.default,
    _ATEN.div.Tensor,
    _ATEN.exp.default,
    _ATEN.maximum.default,
    _ATEN.minimum.default,
    _ATEN.mul.Tensor,
    _ATEN.neg.default,
    _ATEN.rsub.Scalar,
    _ATEN.sub.Tensor,
    _ATEN._to_copy.default,
}
# These give the same values in the same order another shape.
_RESHAPING = {
    _ATEN.view.default,
    _ATEN._unsafe_view.default,
    _ATEN.unsqueeze.default,
    _ATEN.squeeze.dim,
    _ATEN.alias.default,
    _ATEN.detach.default,
}
# One dimension, the second argument, is taken apart, or put together of several.
_ALONG = {_ATEN.select.int, _ATEN.slice.Tensor}
_JOINING = {_ATEN.cat.default, _ATEN.stack.default}


class _Unsure(Exception):
    """Rows of a result may follow from other rows, too."""


def picked(func: Any, args: list) -> Any:
    """What an op takes of values that wait; None where all of them have to be computed."""
    if func not in _PICKING or not isinstance(args[0], Later) or args[0].done() is not None:
        return None
    return _first(*args) if func is _SLICE else _at_places(args[0], args[1])


def _first(source: Later, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    from_begin = dim == 0 and not start and step == 1
    return source.first(min(end, source.shape[0])) if from_begin and end and end > 0 else None


def _at_places(source: Later, given: Any) -> Any:
    places = now(given)
    if not all(_are_places(one) for one in places):
        return None
    dims = len(places)
    rows, shape = _row_numbers(places, source.shape[:dims])
    if rows.numel() > _MOST * math.prod(source.shape[:dims]):
        return None
    found = _Picking().rows(source, dims, rows)
    return by_columns(found.reshape(*shape, *source.shape[dims:]))


def _are_places(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and one.dtype in (torch.int64, torch.int32)


def _row_numbers(places: list, sizes: Any) -> tuple[Any, Any]:
    """The rows that are picked, counted through the first dimensions, and the shape in which they come."""
    rows = torch.zeros((), dtype=torch.int64, device="cpu")
    for one, size in zip(places, sizes):
        if one.numel() and not bool(((one >= -size) & (one < size)).all()):
            raise IndexError
        rows = rows * size + torch.where(one < 0, one + size, one)
    return rows.flatten(), rows.shape


class _Picking:
    """Values are used by several others: rows of each are computed once."""

    def __init__(self) -> None:
        # With what their keys are the `id` of, so that nothing else gets it.
        self._found: dict[tuple[int, int, int], tuple] = {}

    def rows(self, value: Any, dims: int, rows: Any) -> Any:
        """These rows, counted through the first dimensions: (rows, other dimensions)."""
        key = (id(value), dims, id(rows))
        if key not in self._found:
            try:
                found = self._computed(value, dims, rows)
            except _Unsure:
                found = now(value).flatten(0, dims - 1)[rows]
            self._found[key] = (found, value, rows)
        return self._found[key][0]

    def _computed(self, value: Any, dims: int, rows: Any) -> Any:
        _require(isinstance(value, Later) and value.done() is None)
        func, args, kwargs = value.asked()
        sizes = value.shape
        if func in _POINTWISE:
            parts = [self._aligned(one, sizes, dims, rows) for one in args]
            named = {name: one for name, one in kwargs.items() if name != "memory_format"}
            return func(*parts, **now(named))
        if func in _RESHAPING:
            return self._reshaped(args[0], sizes, dims, rows)
        if func in _ALONG:
            along = (args[1] if len(args) > 1 else 0) % len(args[0].shape)
            _require(along >= dims)
            return func(self.rows(args[0], dims, rows), along - dims + 1, *args[2:])
        if func in _JOINING:
            along = (args[1] if len(args) > 1 else 0) % len(sizes)
            if along >= dims:
                return func([self.rows(one, dims, rows) for one in args[0]], along - dims + 1)
            _require(func is _ATEN.cat.default and dims == 1)
            return self._of_parts(args[0], rows, sizes)
        raise _Unsure

    def _aligned(self, value: Any, sizes: Any, dims: int, rows: Any) -> Any:
        """What an op at each place reads for these rows of its result, whose sizes are given."""
        if not isinstance(value, (torch.Tensor, Later)):
            return value
        own, behind = tuple(value.shape), len(sizes) - dims
        before = max(0, len(own) - behind)
        if math.prod(own[:before]) == 1:
            # One for all rows; a value without dimensions would not decide on the type of a result.
            return now(value).reshape(own[before:] or own[:1])
        _require(own[:before] == tuple(sizes[:dims]))
        return self.rows(value, dims, rows)

    def _reshaped(self, source: Any, sizes: Any, dims: int, rows: Any) -> Any:
        own, count = source.shape, math.prod(sizes[:dims])
        before = next((n for n in range(1, len(own) + 1) if math.prod(own[:n]) == count), 0)
        _require(before > 0)
        return self.rows(source, before, rows).reshape(len(rows), *sizes[dims:])

    def _of_parts(self, parts: list, rows: Any, sizes: Any) -> Any:
        """Rows of several values that stand one behind another."""
        found, begin = None, 0
        for part in parts:
            end = begin + part.shape[0]
            here = ((rows >= begin) & (rows < end)).nonzero().flatten()
            if len(here):
                taken = self.rows(part, 1, rows[here] - begin)
                found = taken.new_empty(len(rows), *sizes[1:]) if found is None else found
                _require(found.dtype == taken.dtype)
                found[here] = taken
            begin = end
        _require(found is not None)
        return found


def _require(sure: bool) -> None:
    if not sure:
        raise _Unsure
