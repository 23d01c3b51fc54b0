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
_SOFTMAX, _LOG_SOFTMAX = _ATEN._softmax.default, _ATEN._log_softmax.default
_EXP, _CAT = _ATEN.exp.default, _ATEN.cat.default
# These may change which numbers stand in a row.
_TURN = {_ATEN.transpose.int, _ATEN.permute.default}
_MORE = {_FROM_ONE, _LOG_SOFTMAX, _EXP, _CAT}
# What comes from the host: larger tensors would cost more to look through than it tells.
_LOOKED_AT = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_MAX_LOOKED_AT = 1 << 21
# By storage: whether the number rises while a training goes well, as the part of the right answers does.
_rises: dict[int, bool] = {}
# By storage: how many numbers in a row are the parts of one, as the probabilities of all classes are, or the logarithms
# of these.
_parts: dict[int, int] = {}
_logarithms: dict[int, int] = {}


def concerns(func: Any) -> bool:
    """Whether `follow` has something to do for an op."""
    return func in _MAKE or func in _KEEP or func in _KEEP_FIRST or func in _MORE


def follow(func: Any, args: tuple, result: Any) -> None:
    _follow_parts(func, args, result)
    if func in _MAKE:
        _put(result, False)
    elif func in _KEEP or func in _KEEP_FIRST:
        rises = _rising(args[0])
        if rises is not None:
            _put(result if func in _KEEP else result[0], rises)
    elif func is _FROM_ONE and args[1] == 1 and (rises := _rising(args[0])) is not None:
        _put(result, not rises)
    elif is_mutable(func) and args and isinstance(args[0], torch.Tensor):
        forget(_key(args[0]))


def _follow_parts(func: Any, args: tuple, result: Any) -> None:
    if func is _SOFTMAX or func is _LOG_SOFTMAX:
        if result.is_meta and args[1] % max(1, result.dim()) == result.dim() - 1 > 0:
            (_parts if func is _SOFTMAX else _logarithms)[_key(result)] = result.shape[-1]
        return
    if not _parts and not _logarithms:
        return
    if func is _CAT:
        if all(map(are_of_one, args[0])) and result.shape[-1] == args[0][0].shape[-1]:
            _parts[_key(result)] = result.shape[-1]
    elif func is _EXP and _stand_in(_logarithms, args[0]):
        _parts[_key(result)] = result.shape[-1]
        _put(result, False)
    elif func in SAME and func not in _TURN:
        for held in (_parts, _logarithms):
            if _stand_in(held, args[0]) and result.shape[-1:] == args[0].shape[-1:]:
                held[_key(result)] = result.shape[-1]


def _stand_in(held: dict[int, int], tensor: Any) -> bool:
    """Whether a tensor has the rows of its storage, and not a part of each."""
    return tensor.dim() > 1 and held.get(_key(tensor)) == tensor.shape[-1]


def are_of_one(tensor: Any) -> bool:
    """Whether each row of a tensor sums to one."""
    return bool(_parts) and _stand_in(_parts, tensor)


def knows(storage_key: int) -> bool:
    return storage_key in _rises or storage_key in _parts or storage_key in _logarithms


def look_at(source: Any, moved: Any) -> None:
    """For what is copied from the host."""
    plain = source.layout is torch.strided and source.dtype in _LOOKED_AT
    if plain and 0 < source.numel() <= _MAX_LOOKED_AT:
        least, most = source.aminmax()
        if least >= 0 and most <= 1:
            _put(moved, False)


def plausible(tensor: Any, part: float) -> float | None:
    """A number between 0 and 1 that follows `part`, which falls from 1 on; None where it may be any number."""
    rises = _rises.get(_key(tensor))
    return None if rises is None else 1 - part / 2 if rises else part / 2


def forget(storage_key: int) -> None:
    for held in (_rises, _parts, _logarithms):
        held.pop(storage_key, None)


def _key(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _rising(tensor: Any) -> bool | None:
    # A mask that becomes numbers is what a part of right answers is made of.
    return True if tensor.dtype == torch.bool else _rises.get(_key(tensor))


def _put(tensor: Any, rises: bool) -> None:
    if tensor.is_meta and tensor.dtype.is_floating_point:
        _rises[_key(tensor)] = rises
