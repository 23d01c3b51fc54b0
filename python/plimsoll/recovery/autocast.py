"""Autocast around the loss of a microbatch, where the program asked for it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ContextManager


def autocasting(dtype: Any, device: str) -> ContextManager[Any]:
    if dtype is None:
        return nullcontext()
    import torch

    return torch.autocast("cuda" if device.startswith("cuda") else "cpu", dtype=dtype)
