"""Sees every op that PyTorch runs on the meta device and records what CUDA would ask for.

A storage is one allocation; its weak reference dying is its free. What a CUDA kernel takes
besides its outputs comes from the rules in `plimsoll.kernels`.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import ledger as kinds
from .accumulation import accumulates_in_place
from .kernels.registry import Launch, rule_for
from .ledger import Ledger
from .scalars import Scalars

_DETACH = torch.ops.aten.detach.default
_ADD = torch.ops.aten.add.Tensor


class Observer(TorchDispatchMode):
    def __init__(self, ledger: Ledger, gpu: Any, current_module: Callable[[], str]):
        super().__init__()
        self.ledger = ledger
        self.gpu = gpu
        self.category = kinds.WEIGHT
        self.in_backward = False
        self.current_module = current_module
        self.scalars = Scalars()
        # Workspaces stay for good, one per thread that launches: forward's and backward's.
        self.workspaces: Dict[Any, int] = {}
        self._live: Dict[int, Any] = {}
        self._rules: Dict[Any, Optional[Callable]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.scalars.answers:
            return self.scalars.answer(func, args)
        if func is _ADD and accumulates_in_place(args, kwargs):
            return torch.ops.aten.add_.Tensor(args[0], args[1])
        rule = self._rule(func)
        if rule is None and _is_composite(func):
            # Under inference mode an op arrives whole that autograd would have taken apart.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if func is not _DETACH:
            self._record(func, rule, args, kwargs, result)
        self.scalars.notice(func, result)
        return result

    def _rule(self, func) -> Optional[Callable]:
        try:
            return self._rules[func]
        except KeyError:
            rule = self._rules[func] = rule_for(str(func))
            return rule

    def _record(self, func, rule, args, kwargs, result) -> None:
        fresh = {}
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        for index, output in enumerate(outputs):
            if isinstance(output, torch.Tensor) and output.device.type == "meta":
                storage = output.untyped_storage()
                if storage._cdata not in self._live:
                    fresh[index] = storage
        if not fresh and rule is None:
            return
        launch = Launch(self, func, args, kwargs, outputs, fresh)
        if rule is not None:
            rule(launch)
        launch.place_all()

    def adopt(self, storage, op: str, category: Optional[str] = None) -> int:
        """Records a storage as one allocation that is freed when the last tensor lets go of it."""
        key = storage._cdata
        if key in self._live:
            return self._live[key][0]
        ident = self.ledger.allocate(
            storage.nbytes(), op, self.current_module(), category or self.category
        )

        def died(_reference, key=key, ident=ident):
            self._live.pop(key, None)
            self.ledger.free(ident)

        self._live[key] = (ident, weakref.ref(storage, died))
        return ident

    def ident_of(self, tensor) -> int:
        """The allocation a tensor lives in, or 0 when it is not one of the device's."""
        entry = self._live.get(tensor.untyped_storage()._cdata)
        return entry[0] if entry else 0


def _is_composite(func) -> bool:
    return torch.is_inference_mode_enabled() and func._can_decompose()
