"""Sparse tensors without memory: PyTorch makes them on `meta`, and has no kernels for them there.

Each op is taken apart into dense ones on indices and values, in the order in which its CUDA kernel asks for
memory, as recorded on an H200; how columns are brought into rows was read in PyTorch's code. So a sparse
tensor itself never counts, its parts do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .kernels.sorting import sort_scratch

_ATEN = torch.ops.aten
_COMPRESSED = {torch.sparse_csr, torch.sparse_csc}
_MAKERS = {
    _ATEN._sparse_coo_tensor_with_dims_and_tensors.default,
    _ATEN._sparse_compressed_tensor_unsafe.default,
    _ATEN.sparse_compressed_tensor.comp_plain_value_size,
}
# These make a sparse tensor of a dense one, too.
_FROM_DENSE = {_ATEN._to_sparse.default, _ATEN._to_sparse_csr.default, _ATEN._to_sparse_csc.default}
# Kernels of PyTorch for these do without memory.
_PLAIN = {
    *_MAKERS,
    *(
        getattr(_ATEN, name).default
        for name in [
            "_indices",
            "_values",
            "_nnz",
            "is_coalesced",
            "_coalesced_",
            "sparse_dim",
            "dense_dim",
            "values",
            "indices",
            "crow_indices",
            "col_indices",
            "ccol_indices",
            "row_indices",
            "detach",
            "alias",
            "is_same_size",
        ]
    ),
}
# Bytes that cuSPARSE asks for beside a product; it differs a little with the shape.
_PRODUCT_BUFFER = 65536
# Up to this many values PyTorch sorts without scratch memory.
_SMALL_SORT = 4096


# What a sparse tensor without memory consists of: places, starts of rows, and values.

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


def is_jagged(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.jagged


def concerns(args: tuple) -> bool:
    layouts = [one.layout for one in args if isinstance(one, torch.Tensor)]
    return layouts.count(torch.strided) < len(layouts)


def makes(func: Any) -> bool:
    return func in _MAKERS or func in _FROM_DENSE


def stand_in(func: Any, args: tuple, kwargs: dict) -> Callable | None:
    """What takes an op apart; None where PyTorch's own kernel does, without memory or in host memory."""
    to_meta = str(kwargs.get("device")) == "meta"
    dense = func in _FROM_DENSE
    on_meta = to_meta or any((dense or is_sparse(a)) and _is_on_meta(a) for a in args)
    # Two sparse tensors are added up by keeping both lists.
    own = func in _PLAIN or (func is _ATEN.add_.Tensor and is_sparse(args[0]))
    if own or not on_meta:
        return None
    taken = _TABLE.get(func)
    if taken is None:
        raise NotImplementedError(f"{func.name()} of sparse tensors")
    return taken


def _is_on_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def new(func: Any, args: tuple, kwargs: dict) -> Any:
    """`Tensor.new`, by which SparseAdam makes its updates, knows no sparse tensors without memory."""
    like, *parts = args
    if is_sparse(like) and like.layout is torch.sparse_coo and parts:
        return torch.sparse_coo_tensor(*parts)
    return func(*args, **kwargs)


def _to_copy(tensor: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    where = {"device": device} if device is not None else {}
    what = {"dtype": dtype} if dtype is not None else {}
    if tensor.layout is torch.sparse_coo:
        indices, values = parts_of(tensor)
        return coo(tensor, _copied(indices, where), _copied(values, {**where, **what}))
    values = _copied(tensor.values(), {**where, **what})
    starts, places = (_copied(part, where) for part in _starts_and_places(tensor))
    return compressed(starts, places, values, tensor.shape, tensor.layout)


def _copied(part: Any, named: dict) -> Any:
    return part.to(copy=True, **named)


def _clone(tensor: Any, **_: Any) -> Any:
    return _to_copy(tensor)


def _transpose(tensor: Any, *_: Any) -> Any:
    if tensor.layout in _COMPRESSED:
        # Rows are called columns; nothing is copied.
        by_rows = tensor.layout is torch.sparse_csr
        layout = torch.sparse_csc if by_rows else torch.sparse_csr
        return compressed(*_starts_and_places(tensor), tensor.values(), tensor.shape[::-1], layout)
    indices, values = parts_of(tensor)
    return coo(tensor, indices.clone(), values.clone(), tensor.shape[::-1], coalesced=False)


def _starts_and_places(tensor: Any) -> tuple[Any, Any]:
    if tensor.layout is torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices()
    return tensor.ccol_indices(), tensor.row_indices()


def _by_rows(tensor: Any) -> Any:
    """A matrix by columns is brought into rows before each product, as PyTorch's `to_sparse_csr` does it."""
    if tensor.layout is torch.sparse_coo:
        return _rows_of_places(tensor if tensor.is_coalesced() else _coalesce(tensor))
    starts, places = _starts_and_places(tensor)
    if tensor.layout is torch.sparse_csr:
        return tensor
    values, kind = tensor.values(), places.dtype
    count, rows = values.shape[0], tensor.shape[0]
    shifted = room(starts.shape[0] - 1, dtype=kind)
    joined = room(starts.shape[0], dtype=kind)
    del shifted
    pairs = room(2, count, dtype=kind)
    batch, offset = room(count, dtype=kind), room(count, dtype=kind)
    del offset, batch
    keys = room(count)
    order = _sorted(count)
    in_rows = room(2, count, dtype=kind)
    moved = torch.empty_like(values)
    counted = room(rows + 1, dtype=kind)
    first = room(1, rows + 1, dtype=kind)
    less = room(rows, dtype=kind)
    del less, counted, order, keys, pairs, joined
    # The places are a half of the pairs, which stay as a whole.
    return compressed(first[0], in_rows[1], moved, tensor.shape, torch.sparse_csr)


def _rows_of_places(tensor: Any) -> Any:
    """Only the start of each row is new; the rest is shared."""
    indices, values = parts_of(tensor)
    starts = room(tensor.shape[0] + 1, dtype=indices.dtype)
    return compressed(starts, indices[1], values, tensor.shape, torch.sparse_csr)


def _sorted(count: int) -> Any:
    """The order of keys: their sorted copy lives as long as the sort."""
    keys, order = room(count), room(count)
    if count > _SMALL_SORT:
        numbers = room(count)
        scratch = room(sort_scratch(count), dtype=torch.int8)
        del scratch, numbers
    del keys
    return order


def _coalesce(tensor: Any) -> Any:
    indices, values = parts_of(tensor)
    count = values.shape[0]
    flat, origin, offsets = (
        torch.empty(1, count, dtype=torch.int64, device="meta") for _ in range(3)
    )
    sorting = torch.empty(2 * count, dtype=torch.int64, device="meta")
    del sorting
    # How many places are the same only the data would tell: none.
    summed = torch.empty_like(values)
    del origin, offsets
    places = flat if tensor.sparse_dim() == 1 else torch.empty_like(indices)
    return coo(tensor, places, summed, coalesced=True)


def _from_dense(tensor: Any, *_: Any, **__: Any) -> Any:
    """The places that are not zero: as many as are known or likely, else all."""
    if is_sparse(tensor):
        return tensor if tensor.is_coalesced() else _coalesce(tensor)
    places = tensor.nonzero()
    values = torch.empty(len(places), dtype=tensor.dtype, device="meta")
    return _ATEN._sparse_coo_tensor_with_dims_and_tensors(
        tensor.dim(),
        0,
        list(tensor.shape),
        places.t().contiguous(),
        values,
        dtype=tensor.dtype,
        layout=torch.sparse_coo,
        device="meta",
        is_coalesced=True,
    )


def _rows_of(tensor: Any, *_: Any, **__: Any) -> Any:
    return _by_rows(tensor if is_sparse(tensor) else _from_dense(tensor))


def _columns_of(tensor: Any, *_: Any, **__: Any) -> Any:
    return _transpose(_by_rows(_transpose(tensor if is_sparse(tensor) else _from_dense(tensor))))


def _mv(first: Any, second: Any) -> Any:
    return _mm(first, second.unsqueeze(1)).squeeze(1)


def _product_of_two(first: Any, second: Any) -> Any:
    """How many places the result has only the data would tell: as many as random places give, each once."""
    pairs = first._nnz() * second._nnz() // max(1, first.shape[1])
    count = min(pairs, first.shape[0] * second.shape[1])
    buffer = torch.empty(_PRODUCT_BUFFER, dtype=torch.int8, device="meta")
    values = torch.empty(count, dtype=stored(first).dtype, device="meta")
    del buffer
    size = (first.shape[0], second.shape[1])
    if first.layout is torch.sparse_coo:
        return coo(first, room(2, count), values, size, coalesced=True)
    return compressed(room(size[0] + 1), room(count), values, size, torch.sparse_csr)


def _index_select(tensor: Any, dim: int, places: Any) -> Any:
    """Of as many rows, as large a part of the values."""
    indices, values = parts_of(tensor)
    count = len(values) * places.numel() // max(1, tensor.shape[dim])
    size = list(tensor.shape)
    size[dim] = places.numel()
    chosen = torch.empty(count, *values.shape[1:], dtype=values.dtype, device="meta")
    return coo(tensor, room(indices.shape[0], count), chosen, size, coalesced=False)


def _mm(first: Any, second: Any) -> Any:
    if is_sparse(first) and is_sparse(second):
        return _product_of_two(first, second)
    if not is_sparse(first):
        # The same with both turned round, whose result lies by columns.
        return _mm(_transpose(second), first.t()).t()
    first = _by_rows(first) if first.layout in _COMPRESSED else first
    start = torch.zeros(first.shape[0], second.shape[1], dtype=second.dtype, device="meta")
    return _addmm(start, first, second)


def _addmm(start: Any, first: Any, second: Any, **_: Any) -> Any:
    if not is_sparse(first) or is_sparse(second):
        raise NotImplementedError(
            "aten::addmm of a dense with a sparse matrix, or of two sparse ones"
        )
    result = torch.empty_like(start)
    if first.layout is torch.sparse_coo:
        first = first if first.is_coalesced() else _coalesce(first)
        count = first._values().shape[0]
        rows = torch.empty(first.shape[0] + 1, dtype=torch.int32, device="meta")
        short = torch.empty(count, dtype=torch.int32, device="meta")
        del short
        columns = torch.empty(count, dtype=torch.int32, device="meta")
        by_columns = torch.empty_like(result)
        buffer = torch.empty(_PRODUCT_BUFFER, dtype=torch.int8, device="meta")
        del buffer, by_columns, columns, rows
        return result
    first = _by_rows(first)
    buffer = torch.empty(_PRODUCT_BUFFER, dtype=torch.int8, device="meta")
    del buffer
    return result


def _add(first: Any, second: Any, **_: Any) -> Any:
    if is_sparse(first) and is_sparse(second):
        (indices, values), (more, others) = parts_of(first), parts_of(second)
        joined = torch.cat([indices, more], 1), torch.cat([values, others])
        return coo(first, *joined, coalesced=False)
    if is_sparse(first):
        first, second = second, first
    return first.clone()


def _sparse_mask(dense: Any, mask: Any, **_: Any) -> Any:
    indices, values = parts_of(mask)
    gathered = torch.empty_like(values)
    flat = indices.clone()
    result = torch.empty_like(values)
    del gathered, flat
    return coo(mask, indices, result)


def _by_value(function: Callable) -> Callable:
    def taken(tensor: Any, *others: Any, **_: Any) -> Any:
        if not is_sparse(tensor):
            tensor, others = others[0], (tensor,)
        if others and isinstance(others[0], torch.Tensor) and others[0].dim():
            # One value for each place.
            others = (torch.empty_like(tensor._values()), *others[1:])
        return coo(tensor, tensor._indices().clone(), function(tensor._values(), *others))

    return taken


def _to_dense(tensor: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return torch.zeros(tensor.shape, dtype=dtype or stored(tensor).dtype, device="meta")


def _sum_along(tensor: Any, dim: Any, dtype: Any = None, **_: Any) -> Any:
    """Over all places it is a dense sum; else the places that are left are kept, equal ones apart."""
    indices, values = parts_of(tensor)
    gone = {one % tensor.dim() for one in ([dim] if isinstance(dim, int) else dim)}
    places = tensor.sparse_dim()
    inside = [one - places + 1 for one in gone if one >= places]
    values = values.sum(inside, dtype=dtype) if inside else values
    left = [one for one in range(places) if one not in gone]
    if not left:
        return values.sum(0)
    return _ATEN._sparse_coo_tensor_with_dims_and_tensors(
        len(left),
        values.dim() - 1,
        [size for one, size in enumerate(tensor.shape) if one not in gone],
        torch.empty(len(left), indices.shape[1], dtype=indices.dtype, device="meta"),
        values.clone(),
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device="meta",
        is_coalesced=False,
    )


def _sum_along_backward(_grad: Any, tensor: Any, _dim: Any) -> Any:
    indices, values = parts_of(tensor)
    return coo(tensor, indices.clone(), torch.empty_like(values))


def _softmax(tensor: Any, *_: Any, **__: Any) -> Any:
    """Along one dimension, over the values that are there."""
    indices, values = parts_of(tensor if tensor.is_coalesced() else _coalesce(tensor))
    return coo(tensor, indices.clone(), torch.empty_like(values), coalesced=True)


def _softmax_backward(_grad: Any, result: Any, *_: Any) -> Any:
    indices, values = parts_of(result)
    return coo(result, indices.clone(), torch.empty_like(values))


_TABLE: dict[Any, Callable] = {
    _ATEN._to_copy.default: _to_copy,
    _ATEN.clone.default: _clone,
    _ATEN.t.default: _transpose,
    _ATEN.transpose.int: _transpose,
    _ATEN._coalesce.default: _coalesce,
    _ATEN._to_sparse.default: _from_dense,
    _ATEN._to_sparse_csr.default: _rows_of,
    _ATEN._to_sparse_csc.default: _columns_of,
    _ATEN.index_select.default: _index_select,
    _ATEN.mv.default: _mv,
    _ATEN._sparse_sparse_matmul.default: _product_of_two,
    _ATEN.mm.default: _mm,
    _ATEN.addmm.default: _addmm,
    _ATEN._sparse_addmm.default: _addmm,
    _ATEN.add.Tensor: _add,
    # Into a dense tensor nothing is asked for.
    _ATEN.add_.Tensor: lambda dense, _, **__: dense,
    _ATEN.sparse_mask.default: _sparse_mask,
    _ATEN.mul.Tensor: _by_value(torch.mul),
    _ATEN.mul.Scalar: _by_value(torch.mul),
    _ATEN.div.Tensor: _by_value(torch.div),
    _ATEN.neg.default: _by_value(torch.neg),
    _ATEN.abs.default: _by_value(torch.abs),
    _ATEN.sqrt.default: _by_value(torch.sqrt),
    _ATEN.relu.default: _by_value(torch.relu),
    _ATEN.tanh.default: _by_value(torch.tanh),
    _ATEN.pow.Tensor_Scalar: _by_value(torch.pow),
    _ATEN._sparse_sum.dim: _sum_along,
    _ATEN._sparse_sum_backward.default: _sum_along_backward,
    _ATEN._sparse_softmax.default: _softmax,
    _ATEN._sparse_log_softmax.default: _softmax,
    _ATEN._sparse_softmax_backward_data.default: _softmax_backward,
    _ATEN._sparse_log_softmax_backward_data.default: _softmax_backward,
    _ATEN._to_dense.default: _to_dense,
    _ATEN.sum.default: lambda tensor, **_: stored(tensor).sum(),
}
