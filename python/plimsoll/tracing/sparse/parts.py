"""What a sparse tensor without memory consists of: places, starts of rows, and values."""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
_IS_WRAPPED = torch._C._functorch.is_functorch_wrapped_tensor


def is_sparse(tensor: Any) -> bool:
    """Rows of different lengths (jagged) lie in one dense tensor; they are taken apart by themselves."""
    dense = (torch.strided, torch.jagged)
    return isinstance(tensor, torch.Tensor) and tensor.layout not in dense


def stored(tensor: Any) -> Any:
    """The dense part of a tensor that says where it is; inside `torch.func` it is wrapped."""
    while _IS_WRAPPED(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    layout = tensor.layout
    if layout is torch.strided or layout is torch.jagged:
        return tensor
    return tensor._values() if layout is torch.sparse_coo else tensor.values()


def coo(like: Any, indices: Any, values: Any, size: Any = None, coalesced: Any = None) -> Any:
    return _ATEN._sparse_coo_tensor_with_dims_and_tensors(
        like.sparse_dim(),
        like.dense_dim(),
        list(size or like.shape),
        indices,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=values.device,
        is_coalesced=like.is_coalesced() if coalesced is None else coalesced,
    )


def compressed(starts: Any, places: Any, values: Any, size: Any, layout: Any) -> Any:
    named = {"dtype": values.dtype, "layout": layout, "device": values.device}
    return _ATEN._sparse_compressed_tensor_unsafe(starts, places, values, list(size), **named)


def parts_of(tensor: Any) -> tuple[Any, Any]:
    return tensor._indices(), tensor._values()


def room(*shape: int, dtype: Any = torch.int64) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta")
