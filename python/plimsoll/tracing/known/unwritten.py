"""Whole numbers that a program makes without values, and then writes part by part: `torch.empty`, `new_empty`.

Where each part is written with known values, all of it is known: the first places of the graphs of a batch, say.
Until then its values are unknown.
"""

from __future__ import annotations

from typing import Any

import torch

# Those that are read later are lengths, places and counts.
_LARGEST = 4096
_UNWRITTEN = "_plimsoll_unwritten"


def keep(result: Any) -> None:
    """After an op that writes nothing into what it makes."""
    if not isinstance(result, torch.Tensor) or not result.is_meta:
        return
    small = 0 < result.numel() <= _LARGEST and not result.dtype.is_floating_point
    if small and not result.dtype.is_complex and result.layout is torch.strided:
        setattr(result, _UNWRITTEN, True)


def taken(target: Any) -> list[tuple[Any, Any]]:
    """Before the first write to it, or to a part: the whole and the part, with zeros for what they hold."""
    whole = target if target._base is None else target._base
    if not getattr(whole, _UNWRITTEN, False):
        return []
    delattr(whole, _UNWRITTEN)
    if not whole.is_contiguous():
        return []
    zeros = torch.zeros(whole.shape, dtype=whole.dtype, device="cpu")
    if target is whole:
        return [(whole, zeros)]
    start = target.storage_offset() - whole.storage_offset()
    return [(whole, zeros), (target, zeros.as_strided(target.shape, target.stride(), start))]
