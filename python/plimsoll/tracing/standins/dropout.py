"""Dropout as CUDA's one kernel with a boolean mask."""

from __future__ import annotations

import torch


def dropout(input, p, train):
    """Takes the place of `aten::dropout`."""
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return input * torch.zeros((), device=input.device, dtype=input.dtype)
    return torch.native_dropout(input, p, train)[0]
