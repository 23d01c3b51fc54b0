"""How the result of an op gets its values."""

from __future__ import annotations

from typing import Any

import torch

from ..op_facts import is_mutable

# Into what was there before, not at all, by a shape, of nothing, of others.
WRITES, LEAVES, LIKE, MAKES, COMPUTES = "writes", "leaves", "like", "makes", "computes"

_ATEN = torch.ops.aten
_MAKERS = {
    _ATEN.arange.default,
    _ATEN.arange.start,
    _ATEN.arange.start_step,
    _ATEN.linspace.default,
    _ATEN.full.default,
    _ATEN.zeros.default,
    _ATEN.ones.default,
    _ATEN.scalar_tensor.default,
}
# These take only the shape, or nothing but the device, of what they are given.
_LIKES = {
    _ATEN.ones_like.default,
    _ATEN.zeros_like.default,
    _ATEN.full_like.default,
    _ATEN.new_ones.default,
    _ATEN.new_zeros.default,
    _ATEN.new_full.default,
}
# These hold whatever was there before.
UNWRITTEN = {
    _ATEN.empty.memory_format,
    _ATEN.empty_like.default,
    _ATEN.new_empty.default,
    _ATEN.new_empty_strided.default,
    _ATEN.resize_.default,
}
# What other ranks sent is not known.
_COLLECTIVES = "_c10d_functional"


def way_of(func: Any) -> str:
    """How the values of an op's result come about."""
    if is_mutable(func):
        return WRITES
    if func in UNWRITTEN or func.namespace == _COLLECTIVES:
        return LEAVES
    return LIKE if func in _LIKES else MAKES if func in _MAKERS else COMPUTES
