"""Linear layers over inputs that do not lie in one run: CUDA adds the bias in place."""

from __future__ import annotations

import torch

_LINEAR = torch.ops.aten.linear.default
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def linear(input, weight, bias=None):
    """Takes the place of `aten::linear`."""
    if bias is None or input.dim() <= 2 or input.is_contiguous():
        # Its steps in C++; `decompose` would look for others in Python each time.
        return _LINEAR._op_dk(_COMPOSITE, input, weight, bias)
    return torch.matmul(input, weight.t()).add_(bias)
