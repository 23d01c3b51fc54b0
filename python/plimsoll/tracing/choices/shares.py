"""Which tensors hold numbers from 0 to 1: probabilities, labels, parts of a count.

Programs compute with such numbers once they read them (`log(1 - rate)`), so a plausible one lies there, too.
"""

from __future__ import annotations

from typing import Any

import torch

from ..op_facts import is_mutable
from ..scalars import SAME

_ATEN = torch.ops.aten
_MAKE = {
    _ATEN.sigmoid.default,
    _ATEN._softmax.default,
    _ATEN.bernoulli.default,
    _ATEN.rand.default,
    _ATEN.rand_like.default,
}
_KEEP = {
    *SAME,
    _ATEN.mean.default,
    _ATEN.mean.dim,
    _ATEN.max.default,
    _ATEN.min.default,
    _ATEN.amax.default,
    _ATEN.amin.default,
    _ATEN.median.default,
}
# Values, and where they stood.
_KEEP_FIRST = {
    _ATEN.max.dim,
    _ATEN.min.dim,
    _ATEN.topk.default,
    _ATEN.sort.default,
    _ATEN.median.dim,
}
_FROM_ONE = _ATEN.rsub.Scalar
# What comes from the host: larger tensors would cost more to look through than it tells.
_LOOKED_AT = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_MAX_LOOKED_AT = 1 << 21
# By storage: whether the number rises while a training goes well, as the part of the right answers does.
_rises: dict[int, bool] = {}


def concerns(func: Any) -> bool:
    """Whether `follow` has something to do for an op."""
    return func in _MAKE or func in _KEEP or func in _KEEP_FIRST or func is _FROM_ONE


def follow(func: Any, args: tuple, result: Any) -> None:
    if func in _MAKE:
        _put(result, False)
    elif func in _KEEP or func in _KEEP_FIRST:
        rises = _rising(args[0])
        if rises is not None:
            _put(result if func in _KEEP else result[0], rises)
    elif func is _FROM_ONE and args[1] == 1 and (rises := _rising(args[0])) is not None:
        _put(result, not rises)
    elif _rises and is_mutable(func) and args and isinstance(args[0], torch.Tensor):
        forget(args[0].untyped_storage()._cdata)


def knows(storage_key: int) -> bool:
    return storage_key in _rises


def look_at(source: Any, moved: Any) -> None:
    """For what is copied from the host."""
    plain = source.layout is torch.strided and source.dtype in _LOOKED_AT
    if plain and 0 < source.numel() <= _MAX_LOOKED_AT:
        least, most = source.aminmax()
        if least >= 0 and most <= 1:
            _put(moved, False)


def plausible(tensor: Any, part: float) -> float | None:
    """A number between 0 and 1 that follows `part`, which falls from 1 on; None where it may be any number."""
    rises = _rises.get(tensor.untyped_storage()._cdata)
    return None if rises is None else 1 - part / 2 if rises else part / 2


def forget(storage_key: int) -> None:
    _rises.pop(storage_key, None)


def _rising(tensor: Any) -> bool | None:
    # A mask that becomes numbers is what a part of right answers is made of.
    return True if tensor.dtype == torch.bool else _rises.get(tensor.untyped_storage()._cdata)


def _put(tensor: Any, rises: bool) -> None:
    if tensor.is_meta and tensor.dtype.is_floating_point:
        _rises[tensor.untyped_storage()._cdata] = rises
