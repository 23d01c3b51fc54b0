"""Ops on known values, in host memory: at once, or later where they are many."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from ..op_facts import draws_numbers, is_pointwise, is_view
from .later import Computation, Later, Weight, now
from .layout import by_columns, goes_by_strides, laid_out, stacked

# Values that repeat along a dimension, such as a row of a mask that is expanded to one row for each position.
#
# Masks of long texts have a row for each position, and all rows are alike: 4 texts of 4,096 words make 67 million
# values,
# of which 16,384 differ. Each of these is computed once.

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


# Ops on many values that numpy computes in a fraction of PyTorch's time. The results are the same.

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


# Rows of large values that wait to be computed: of the ops that lead to them, only these rows are computed.
#
# A detector moves each of a million anchors by what it has learned, and goes on with the few thousand of the best
# scores.

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
