"""Autocast around the loss of a microbatch, where the program asked for it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def autocasting(dtype: Any, device: str) -> AbstractContextManager[Any]:
    if dtype is None:
        return nullcontext()
    import torch

    return torch.autocast("cuda" if device.startswith("cuda") else "cpu", dtype=dtype)
