"""The kernels that PyTorch's compiler writes for `flex_attention`, and what they take.

Seen on an H200: neither scores nor masks are kept, whatever the score function and the mask are. Heads that
share keys ask for no copies of them, and rows that fill no block for no padding.
"""

from __future__ import annotations

from typing import Any

import torch

from .registry import Launch, rule

_FLOAT = 4
# Fewer queries than this run in a kernel for generation, which divides the keys among the multiprocessors.
_SHORT = 128

_LIBRARY = torch.library.Library("plimsoll", "DEF")
_LIBRARY.define(
    "flex_attention(Tensor query, Tensor key, Tensor value, Tensor[] read, bool short) "
    "-> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "flex_attention_backward(Tensor query, Tensor key, Tensor value, Tensor out, Tensor sums, "
    "Tensor grad, Tensor? sums_grad, Tensor[] read) -> (Tensor, Tensor, Tensor)"
)


def _forward(query: Any, key: Any, value: Any, read: Any, short: bool) -> Any:
    """The result, and for each row the logarithm of its sum and its largest score."""
    out = _laid_out_like(query, (*query.shape[:3], value.shape[3]))
    sums = query.new_empty(query.shape[:3], dtype=torch.float32)
    return out, sums, torch.empty_like(sums)


def _backward(
    query: Any, key: Any, value: Any, out: Any, sums: Any, grad: Any, sums_grad: Any, read: Any
) -> Any:
    samples = query.shape[0]
    return (
        _laid_out_like(query, query.shape),
        _laid_out_like(key, (samples, *key.shape[1:])),
        _laid_out_like(value, (samples, *value.shape[1:])),
    )


_LIBRARY.impl("flex_attention", _forward, "Meta")
_LIBRARY.impl("flex_attention_backward", _backward, "Meta")


def _laid_out_like(tensor: Any, shape: Any) -> Any:
    """Without holes, in the tensor's order of dimensions, but for the last, which is always the innermost."""
    strides = tensor.stride()
    last = len(shape) - 1
    order = sorted(range(last), key=lambda dimension: strides[dimension])
    steps, step = [1] * len(shape), shape[last]
    for dimension in order:
        steps[dimension] = step
        step *= shape[dimension]
    return tensor.new_empty_strided(shape, steps)


def is_short(query: Any, value: Any, mask_heads: int) -> bool:
    """Whether the kernel for generation takes it: few queries, and heads that it can share out."""
    shared = query.shape[1] // value.shape[1]
    alike = mask_heads == 1 or (shared == 1 and mask_heads == query.shape[1])
    return 0 < query.shape[2] < _SHORT and shared & (shared - 1) == 0 and alike


@rule("plimsoll.flex_attention")
def forward(launch: Launch) -> None:
    if launch.argument(4, "short"):
        _generating(launch)
        return
    launch.place(1)
    launch.place(2)
    launch.place(0)


def _generating(launch: Launch) -> None:
    """Each part of the keys leaves its rows' largest score and sum, and its share of the result."""
    query, _, value = launch.args[:3]
    samples, heads, rows, _ = query.shape
    parts = max(1, launch.gpu.multiprocessors // (samples * value.shape[1]) * 2)
    numbers = samples * parts * heads * rows * _FLOAT
    taken = [launch.take(size) for size in (numbers, numbers, numbers * value.shape[3])]
    launch.place(1)
    launch.place(0)
    launch.skip(2)
    launch.give(*taken)


@rule("plimsoll.flex_attention_backward")
def backward(launch: Launch) -> None:
    """First a number for each row: the product of the result and its gradient."""
    rows = launch.argument(4, "sums").numel() * _FLOAT
    taken = [launch.take(rows)]
    if launch.argument(6, "sums_grad") is not None:
        taken.append(launch.take(rows))
    launch.place_all()
    launch.give(*taken)
