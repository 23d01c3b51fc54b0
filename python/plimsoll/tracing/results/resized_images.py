"""Images that are resized: PyTorch's meta kernels for this work out all places and weights, for a result that follows
from the shapes. Detectors resize the map of each person to a size of its own, thousands of them."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from .alike_results import strides_in_one_run


def resized(func: Any, args: tuple, kwargs: dict) -> Any:
    """Of images that lie row by row. For others, and for what is wrong, the kernel is asked."""
    image, size = args[:2]
    plain = image.dim() == 4 and image.numel() > 0 and image.is_floating_point()
    plain = plain and image.stride() == strides_in_one_run(image.shape) and min(size) > 0
    if not plain or suggest_memory_format(image) is not torch.contiguous_format:
        return func(*args, **kwargs)
    return torch.empty((*image.shape[:2], *size), dtype=image.dtype, device=image.device)
