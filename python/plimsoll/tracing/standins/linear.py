"""Linear layers over inputs that do not lie in one run: CUDA adds the bias in place."""

from __future__ import annotations

import torch


def linear(input, weight, bias=None):
    """Takes the place of `aten::linear`."""
    if bias is None or input.dim() <= 2 or input.is_contiguous():
        return torch.ops.aten.linear.default.decompose(input, weight, bias)
    return torch.matmul(input, weight.t()).add_(bias)
