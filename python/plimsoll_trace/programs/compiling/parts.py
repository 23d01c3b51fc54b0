"""What a compiled function is given or gives, taken apart: tensors, and what is none.

A mask of blocks for `flex_attention` holds tensors, too, and PyTorch takes it for one thing.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Callable

import torch
from torch.utils import _pytree as pytree


class Parts:
    def __init__(self, value: Any) -> None:
        self.leaves: list[Any] = []
        found, self._spec = pytree.tree_flatten(value)
        # Of each leaf: how many parts it has, and how to make it of them; None where it is one itself.
        self._made: list[tuple[int, Callable] | None] = []
        self._contexts: list[Any] = []
        for leaf in found:
            if type(leaf).__name__ != "BlockMask" or not hasattr(leaf, "_flatten"):
                self.leaves.append(leaf)
                self._made.append(None)
                continue
            tensors, context = leaf._flatten()
            self.leaves.extend(tensors)
            self._made.append((len(tensors), _maker(type(leaf), context)))
            self._contexts.append((leaf.seq_lengths, leaf.BLOCK_SIZE, form_of(leaf.mask_mod)))

    def form(self) -> Any:
        """All but the leaves, as a key."""
        return str(self._spec), *self._contexts

    def joined(self, leaves: list) -> Any:
        given = iter(leaves)
        found = []
        for made in self._made:
            if made is None:
                found.append(next(given))
            else:
                count, make = made
                found.append(make([next(given) for _ in range(count)]))
        return pytree.tree_unflatten(found, self._spec)


def _maker(kind: Any, context: Any) -> Callable:
    return lambda tensors: kind._unflatten(tensors, context)


def form_of(function: Any) -> Any:
    """A function by its code and what it closes over: programs define the same one again for each batch."""
    if not isinstance(function, FunctionType):
        return id(function)
    cells = function.__closure__ or ()
    return function.__code__, *(_closed_over(cell.cell_contents) for cell in cells)


def _closed_over(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, FunctionType):
        return form_of(value)
    return (type(value), value) if isinstance(value, (int, float, str)) else id(value)
