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
