"""How elementwise ops lay out their results where strides can be read in two ways.

An image of one pixel that came from channels-last ones, as a pooled one, is contiguous as well. CUDA's elementwise ops
take it for contiguous, and so does all that follows: an `interpolate`, a `cat`, the kernels of a convolution. The meta
kernels keep its strides.
"""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
# PyTorch does not mark these as elementwise.
_NOT_MARKED = frozenset((_ATEN.leaky_relu.default, _ATEN.hardswish.default))


def as_laid_out(func: Any, args: tuple, result: Any) -> Any:
    if not isinstance(result, torch.Tensor) or result.dim() not in (4, 5) or not result.is_meta:
        return result
    # Strides can be read in two ways only along a dimension of one, or of none.
    if 1 not in result.shape and 0 not in result.shape:
        return result
    if not result.is_contiguous() or any(result is one for one in args):
        return result
    plain = torch.empty(result.shape, dtype=result.dtype, device=result.device)
    if plain.stride() == result.stride() or not _takes_contiguous(func, args, result):
        return result
    return plain


def _takes_contiguous(func: Any, args: tuple, result: Any) -> bool:
    """Whether all operands have the shape of the result and are contiguous; a number is an operand of another shape."""
    marked = torch.Tag.pointwise in func.tags and func is not _ATEN.clone.default
    if not (marked or func in _NOT_MARKED) or func._overloadname == "Scalar":
        return False
    operands = [
        given for given, told in zip(args, func._schema.arguments) if str(told.type) == "Tensor"
    ]
    return all(
        isinstance(one, torch.Tensor) and one.shape == result.shape and one.is_contiguous()
        for one in operands
    )
