"""How much of a tensor is not zero, after numbers were written to some places of it.

Programs mark places in zeros or ones (the cells of a grid that hold an object, weights that are pruned) and then
choose by these marks. Which places they are may not be known, but how many were written is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from .. import small_values
from ..scalars import UNKNOWN

_ATEN = torch.ops.aten
_PUTS = {_ATEN.index_put_.default, _ATEN.index_put.default}
_FILLS = {_ATEN.fill_.Scalar, _ATEN.fill_.Tensor, _ATEN.copy_.default}
WRITES = {*_PUTS, *_FILLS}


def part_after(
    func: Any, args: tuple, before: float | None, filled: Any, part_of: Callable[[Any], Any]
) -> float | None:
    """The part that is not zero after a write; None where it is not known.

    `before` is that part so far, or None; then `filled` is the number that the tensor is full of, if it is known.
    `part_of` tells the same part of what is written, and of masks.
    """
    into = args[0]
    if before is None:
        if filled is UNKNOWN:
            return None
        before = 1.0 if filled else 0.0
    written = _written(func, args, part_of)
    if written is None:
        return None
    part, value = written
    if 0 <= part < 1:
        left = max(0.0, before - part) if value is not None and value < 1 else before
        return min(1.0, left + part * (1.0 if value is None else value)) if into.numel() else None
    return None


def _written(
    func: Any, args: tuple, part_of: Callable[[Any], Any]
) -> tuple[float, float | None] | None:
    """How large a part is written to, and how much of that is not zero; None where all of it is."""
    into, whole = args[0], args[0].untyped_storage().nbytes() // args[0].element_size()
    if func in _FILLS:
        return into.numel() / max(1, whole), _not_zero(args[1], part_of)
    if len(args) > 3 and args[3]:
        return None
    places = [one for one in args[1] if one is not None]
    masks = [one for one in places if one.dtype in (torch.bool, torch.uint8)]
    if not masks:
        shape = torch.broadcast_shapes(*(one.shape for one in places))
        beside = prod(n for n, one in zip(into.shape, _all(args[1], into)) if one is None)
        return shape.numel() * beside / max(1, whole), _not_zero(args[2], part_of)
    part = part_of(masks[0])
    if len(places) > 1 or part is None:
        return None
    return part * into.numel() / max(1, whole), _not_zero(args[2], part_of)


def _all(places: Any, into: Any) -> list[Any]:
    """One for each dimension."""
    return [*places, *[None] * (into.dim() - len(places))]


def _not_zero(value: Any, part_of: Callable[[Any], Any]) -> float | None:
    if not isinstance(value, torch.Tensor):
        return None if value else 0.0
    known = value if value.device.type == "cpu" else small_values.likely_value_of(value)
    if known is None:
        return part_of(value)
    part = int(known.count_nonzero()) / max(1, known.numel())
    return None if part == 1 else part
