"""Puts the results of the parts of a batch together."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ...arguments import BadType


def join(parts: list[Any], sizes: list[int]) -> Any:
    """Results of the parts as one: tensors and lists end to end, numbers by their mean over samples."""
    first = parts[0]
    if first is None:
        return None
    shape = getattr(first, "shape", None)
    if shape is not None and len(shape) > 0:
        module = sys.modules["torch"] if hasattr(first, "requires_grad") else sys.modules["numpy"]
        return module.cat(parts) if hasattr(first, "requires_grad") else module.concatenate(parts)
    if isinstance(first, Mapping):
        joined: dict[Any, Any] = {key: join([part[key] for part in parts], sizes) for key in first}
        return type(first)(**joined) if hasattr(first, "to_tuple") else joined
    if isinstance(first, list):
        return [value for part in parts for value in part]
    if isinstance(first, tuple):
        fields = [join([part[i] for part in parts], sizes) for i in range(len(first))]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if isinstance(first, (int, float)) or shape is not None:
        return sum(part * size for part, size in zip(parts, sizes)) / sum(sizes)
    fact = f"results of type {type(first).__name__} cannot be put together"
    raise BadType(fact, "pass join=lambda parts: ...")
