"""Answers for code that asks a tensor for its value, which a meta tensor does not have.

Tensors made of one value (masks of ones, fills) are followed through the ops that models use
to look at them, so those answers are exact. For all else the plain case is assumed: `all()`
holds, `any()` does not, and a number is zero.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from .op_facts import is_mutable

_ATEN = torch.ops.aten
SAME = {
    _ATEN.view.default,
    _ATEN._unsafe_view.default,
    _ATEN.expand.default,
    _ATEN.slice.Tensor,
    _ATEN.select.int,
    _ATEN.unsqueeze.default,
    _ATEN.squeeze.dim,
    _ATEN._to_copy.default,
    _ATEN.clone.default,
    _ATEN.detach.default,
    _ATEN.index.Tensor,
    _ATEN.transpose.int,
    _ATEN.permute.default,
    _ATEN.alias.default,
}
_REDUCE = {
    _ATEN.max.default,
    _ATEN.min.default,
    _ATEN.mean.default,
    _ATEN.all.default,
    _ATEN.any.default,
    _ATEN.amax.default,
    _ATEN.amin.default,
}
_COMPARE = {
    _ATEN.eq.Scalar: lambda a, b: a == b,
    _ATEN.ne.Scalar: lambda a, b: a != b,
    _ATEN.lt.Scalar: lambda a, b: a < b,
    _ATEN.le.Scalar: lambda a, b: a <= b,
    _ATEN.gt.Scalar: lambda a, b: a > b,
    _ATEN.ge.Scalar: lambda a, b: a >= b,
}
_FILLS = {
    _ATEN.ones.default: 1,
    _ATEN.ones_like.default: 1,
    _ATEN.new_ones.default: 1,
    _ATEN.zeros.default: 0,
    _ATEN.zeros_like.default: 0,
    _ATEN.new_zeros.default: 0,
}
# Models look for values that would end a training; here there are none.
_BROKEN = {_ATEN.isnan.default, _ATEN.isinf.default}
# Distributions ask this of their parameters and samples.
_VALID = _ATEN._is_all_true.default
_FULLS = {_ATEN.full.default, _ATEN.full_like.default, _ATEN.new_full.default}
UNKNOWN = object()


class Scalars:
    answers: ClassVar[set[Any]] = {
        _ATEN._local_scalar_dense.default,
        _ATEN.equal.default,
        _ATEN.is_nonzero.default,
    }
    _makers: ClassVar[set[Any]] = {
        *_FILLS,
        *_FULLS,
        *_REDUCE,
        *_COMPARE,
        _ATEN.cat.default,
        _ATEN.sum.default,
        _ATEN.logical_not.default,
        _ATEN.bitwise_not.default,
        _ATEN.scalar_tensor.default,
        _VALID,
        *_BROKEN,
    } | (SAME - {_ATEN.detach.default})

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}

    def concerns(self, func: Any) -> bool:
        """Whether `notice` has something to do for an op."""
        return func in self._makers or is_mutable(func)

    def notice(self, func, args, result) -> None:
        if func in self._makers:
            # Those of the host have values of their own, and their end is not seen.
            value = self._value(func, args) if result.is_meta else UNKNOWN
            if value is not UNKNOWN:
                self._values[result.untyped_storage()._cdata] = value
        elif self._values and is_mutable(func) and args and isinstance(args[0], torch.Tensor):
            self._values.pop(args[0].untyped_storage()._cdata, None)

    def forget(self, storage_key: int) -> None:
        self._values.pop(storage_key, None)

    def knows(self, storage_key: int) -> bool:
        """Whether anything is known of a storage."""
        return storage_key in self._values

    def known(self, tensor) -> Any:
        return self._values.get(tensor.untyped_storage()._cdata, UNKNOWN)

    def _value(self, func, args) -> Any:
        if func in _FILLS:
            return _FILLS[func]
        if func in _FULLS:
            return args[-1] if isinstance(args[-1], (int, float, bool)) else UNKNOWN
        if func is _ATEN.scalar_tensor.default:
            return args[0]
        if func is _VALID:
            return True
        if func in _BROKEN:
            return False
        if func is _ATEN.cat.default:
            parts = [self.known(part) for part in args[0]]
            return parts[0] if all(part == parts[0] for part in parts) else UNKNOWN
        known = self.known(args[0])
        if func is _ATEN.all.default and known is UNKNOWN:
            return True
        if func is _ATEN.any.default and known is UNKNOWN:
            return False
        if known is UNKNOWN or func in SAME:
            return known
        if func is _ATEN.sum.default:
            return known * args[0].numel()
        if func in _COMPARE:
            return _COMPARE[func](known, args[1])
        if func in _REDUCE:
            return known
        return not known if args[0].dtype == torch.bool else ~known

    def answer(self, func, args) -> Any:
        tensor = args[0]
        if tensor.device.type != "meta":
            return func(*args)
        known = self.known(tensor)
        value = self.guess(tensor) if known is UNKNOWN else known
        if tensor.dtype == torch.bool or func is _ATEN.is_nonzero.default:
            return bool(value)
        return float(value) if tensor.dtype.is_floating_point else int(value)

    def guess(self, tensor) -> Any:
        """The value of which nothing is known."""
        return 0
