"""`copy.deepcopy` of tensors on meta: PyTorch copies each alone there, and on CUDA the storages they share."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch


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
        copied.__dict__ = copy.deepcopy(tensor.__dict__, memo)
    memo[id(tensor)] = copied
    return copied
