"""Ops on values in host memory alone: programs make their samples of thousands of small ones.

They ask nothing of the GPU. Going through the observer takes ten times as long as most of them.
"""

from __future__ import annotations

from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import torch

# Of functions in Python it is not known what they do.
_COMPILED = (BuiltinFunctionType, MethodDescriptorType)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_PLAIN = frozenset((int, float, bool, str, type(None), torch.dtype, torch.Size))
_INDEX = frozenset((int, slice, type(None), type(...)))
# The observer leaves out the values of many rows that are picked.
_PICK = (torch.index_select, torch.Tensor.index_select)
# What a tensor says of itself takes no op.
_ASK = tuple(
    getattr(torch.Tensor, name)
    for name in (
        "dim",
        "element_size",
        "is_complex",
        "is_contiguous",
        "is_floating_point",
        "is_signed",
        "ndimension",
        "nelement",
        "numel",
        "requires_grad_",
        "size",
        "storage_offset",
        "stride",
        "untyped_storage",
    )
)
_OTHERS = frozenset((*_PICK, *_ASK, torch.numel, torch.is_floating_point, torch.is_complex))


def is_on_host(func: Any, args: tuple, kwargs: dict | None) -> bool:
    """Whether an op is given values of the host, and names no device."""
    if type(func) not in _COMPILED or func in _OTHERS:
        return False
    if kwargs and ("device" in kwargs or not _lies_on_host(kwargs.values(), found=True)):
        return False
    return _lies_on_host(args)


def is_part(tensor: Any, index: Any) -> bool:
    """Whether a part of a tensor of the host is asked for, and no rows are picked."""
    if type(tensor) not in _TENSORS or not tensor.is_cpu:
        return False
    if type(index) is tuple:
        return _INDEX.issuperset(map(type, index))
    return type(index) in _INDEX


def run(func: Any, args: tuple, kwargs: dict | None) -> Any:
    with torch._C._DisableTorchDispatch():
        return func(*args, **kwargs) if kwargs else func(*args)


def _lies_on_host(values: Any, found: bool = False) -> bool:
    """Whether all tensors are in host memory, and there is at least one; found: there is one among other values."""
    for value in values:
        kind = type(value)
        if kind in _TENSORS:
            if not value.is_cpu:
                return False
            found = True
        elif kind is list or kind is tuple:
            for one in value:
                if type(one) in _TENSORS:
                    if not one.is_cpu:
                        return False
                    found = True
                elif type(one) not in _PLAIN:
                    return False
        elif kind not in _PLAIN:
            return False
    return found
