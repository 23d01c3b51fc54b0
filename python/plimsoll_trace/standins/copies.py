"""`copy.deepcopy` of tensors on meta: PyTorch copies each alone there, and on CUDA the storages they share."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes


def deep_copy(tensor: Any, memo: dict, bytes_like: Callable[[Any, int], Any]) -> Any:
    """As `Tensor.__deepcopy__` on CUDA. `bytes_like` makes memory where a tensor lies."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    storages = memo.setdefault("torch", {})
    with torch.no_grad():
        whole = tensor.untyped_storage()
        if whole._cdata not in storages:
            storages[whole._cdata] = bytes_like(tensor, whole.nbytes()).untyped_storage()
        copied = tensor.new_empty([])
        copied.set_(storages[whole._cdata], tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.requires_grad:
            copied.requires_grad_()
        if tensor.grad is not None:
            copied.grad = copy.deepcopy(tensor.grad, memo)
        copied.__dict__ = _attributes(tensor.__dict__, memo)
    memo[id(tensor)] = copied
    return copied


def _attributes(attributes: dict, memo: dict) -> dict:
    """Copies of them. Values in host memory, of which a model has hundreds, are copied without the calls around it."""
    return {
        name: _values(one, memo) if _is_plain(one) else copy.deepcopy(one, memo)
        for name, one in attributes.items()
    }


def _is_plain(value: Any) -> bool:
    if type(value) is not torch.Tensor:
        return False
    with torch._C.DisableTorchFunction():
        plain = value.is_cpu and value.layout is torch.strided and not value.is_quantized
        return plain and not value.requires_grad and not value.__dict__


def _values(value: Any, memo: dict) -> Any:
    """As `Tensor.__deepcopy__`: what shares its memory does so in the copies."""
    if id(value) in memo:
        return memo[id(value)]
    storages = memo.setdefault("torch", {})
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        whole = value.untyped_storage()
        if whole._cdata not in storages:
            storages[whole._cdata] = torch.UntypedStorage(whole.nbytes()).copy_(whole)
        copied = value.new_empty([])
        copied.set_(storages[whole._cdata], value.storage_offset(), value.shape, value.stride())
    memo[id(value)] = copied
    return copied
