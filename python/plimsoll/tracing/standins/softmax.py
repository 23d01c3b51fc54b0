"""Softmax of float16 values into float32: CUDA converts as it reads, meta makes a copy first."""

from __future__ import annotations

import torch

_ATEN = torch.ops.aten


def softmax(input, dim, dtype=None):
    """Takes the place of `aten::softmax.int`."""
    if _widens(input, dtype):
        return _ATEN._softmax(input, dim, True)
    return _ATEN.softmax.int.decompose(input, dim, dtype)


def log_softmax(input, dim, dtype=None):
    """Takes the place of `aten::log_softmax.int`."""
    if _widens(input, dtype):
        return _ATEN._log_softmax(input, dim, True)
    return _ATEN.log_softmax.int.decompose(input, dim, dtype)


def _widens(input, dtype) -> bool:
    # bfloat16 takes the other way, with a copy.
    return input.dtype == torch.float16 and dtype == torch.float32
