"""Facts about ops that PyTorch is slow to tell, asked once for each op: a trace runs hundreds of thousands."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@cache
def name_of(func: Any) -> str:
    """As rules and records name it: `aten.add.Tensor`."""
    return str(func)


@cache
def is_mutable(func: Any) -> bool:
    return func._schema.is_mutable


@cache
def draws_numbers(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


@cache
def is_pointwise(func: Any) -> bool:
    """Whether each value of its result is made of the values at the same place, or is a copy of them."""
    return torch.Tag.pointwise in func.tags or func is torch.ops.aten._to_copy.default


@cache
def is_view(func: Any) -> bool:
    returns = func._schema.returns
    alias = returns[0].alias_info if returns else None
    return alias is not None and not alias.is_write


@cache
def written_places(func: Any) -> tuple[tuple[int, str], ...]:
    """The arguments that it writes to: their places, and their names."""
    return tuple(
        (place, argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def is_composite(func: Any) -> bool:
    """Whether it is run as a formula of other ops."""
    # Not `decompose`, which prefers formulas of Python that copy where CUDA does not.
    # Some ops have formulas beside kernels of their own, which are what runs.
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    # Those of the language itself (`prim`) are in no table of kernels.
    listed = func.namespace != "prim"
    return listed and has(func.name(), COMPOSITE) and not has(func.name(), "CPU")


# How the result of an op gets its values.

# Into what was there before, not at all, by a shape, of nothing, of others.
WRITES, LEAVES, LIKE, MAKES, COMPUTES = "writes", "leaves", "like", "makes", "computes"

_ATEN = torch.ops.aten
_MAKERS = {
    _ATEN.arange.default,
    _ATEN.arange.start,
    _ATEN.arange.start_step,
    _ATEN.linspace.default,
    _ATEN.full.default,
    _ATEN.zeros.default,
    _ATEN.ones.default,
    _ATEN.scalar_tensor.default,
}
# These take only the shape, or nothing but the device, of what they are given.
_LIKES = {
    _ATEN.ones_like.default,
    _ATEN.zeros_like.default,
    _ATEN.full_like.default,
    _ATEN.new_ones.default,
    _ATEN.new_zeros.default,
    _ATEN.new_full.default,
}
# These hold whatever was there before.
UNWRITTEN = {
    _ATEN.empty.memory_format,
    _ATEN.empty_like.default,
    _ATEN.new_empty.default,
    _ATEN.new_empty_strided.default,
    _ATEN.resize_.default,
}
# What other ranks sent is not known.
_COLLECTIVES = "_c10d_functional"


def way_of(func: Any) -> str:
    """How the values of an op's result come about."""
    if is_mutable(func):
        return WRITES
    if func in UNWRITTEN or func.namespace == _COLLECTIVES:
        return LEAVES
    return LIKE if func in _LIKES else MAKES if func in _MAKERS else COMPUTES


# Copies of meta tensors to the host, which have nothing to copy: zeros take their place.

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
