"""Copies of meta tensors to the host, which have nothing to copy: zeros take their place."""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
TO_COPY = _ATEN._to_copy.default
COPIES = {TO_COPY, _ATEN.copy_.default}


def read(func: Any, args: tuple, kwargs: dict) -> Any:
    """What the host gets to see where an op copies from the device to it; else None."""
    if func is TO_COPY:
        source, device = args[0], kwargs.get("device")
        if device is None or torch.device(device).type != "cpu" or source.device.type != "meta":
            return None
        return torch.zeros(source.shape, dtype=kwargs.get("dtype") or source.dtype, device="cpu")
    target, source = args[:2]
    return target if target.device.type == "cpu" and source.device.type == "meta" else None
