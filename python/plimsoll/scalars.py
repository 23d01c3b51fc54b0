"""Answers for code that asks a tensor for its value, which a meta tensor does not have.

Models ask to find out about special cases (is anything padded, is a sequence packed). The
answer is always the plain case: `all()` holds, `any()` does not, and a number is zero.
"""

from __future__ import annotations

import weakref

import torch

_ATEN = torch.ops.aten
_TRUE_MAKERS = {_ATEN.all.default, _ATEN.all.dim, _ATEN.all.dims}


class Scalars:
    answers = {_ATEN._local_scalar_dense.default, _ATEN.equal.default, _ATEN.is_nonzero.default}

    def __init__(self) -> None:
        self._true = weakref.WeakSet()

    def notice(self, func, result) -> None:
        if func in _TRUE_MAKERS:
            self._true.add(result)

    def answer(self, func, args):
        if func is _ATEN.equal.default:
            return True
        tensor = args[0]
        if tensor.device.type != "meta":
            return func(*args)
        holds = tensor in self._true
        if tensor.dtype == torch.bool or func is _ATEN.is_nonzero.default:
            return holds
        return 0.0 if tensor.dtype.is_floating_point else 0
