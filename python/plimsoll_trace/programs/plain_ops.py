"""Ops on tensors of which nothing is known: nearly all ops of a model.

An observer asks what is known of the values of each argument of an op, and follows it into the result. Where nothing
is known there is nothing to follow. A few questions tell such ops here, and only their memory is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .. import small_values
from ..assumed import likely_values, shares
from ..corrections import CORRECTIONS
from ..op_facts import COMPUTES, draws_numbers, is_view
from ..scalars import SAME
from .places import Places

_ATEN = torch.ops.aten
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_SINGLE = ("Tensor", "Optional[Tensor]")
_ADD, _TO_COPY = _ATEN.add.Tensor, _ATEN._to_copy.default
# Where nothing is known of their arguments, nothing is known of their results.
_PASS_ON = (SAME - {_ATEN.index.Tensor}) | {
    _ATEN.mul.Tensor,
    _ATEN.sum.dim_IntList,
    _ATEN.mean.dim,
}
# Attributes that say what a tensor holds.
MARKS = frozenset((*small_values.MARKS, *likely_values.MARKS, likely_values.MARK))
_META = torch.device("meta")
_IS_WRAPPED = torch._C._functorch.is_functorch_wrapped_tensor
# In place of a result, where there is more to do for an op.
MORE = object()


class PlainOps:
    def __init__(self, observer: Any, places: Places, followed: set[Any]) -> None:
        """followed: ops for which the observer of a program has more to do."""
        self._observer = observer
        self._followed = followed
        self._places = places
        # By the op's `id`, with the op, which is held so that no other gets it.
        self._plans: dict[int, tuple[_Plan | None, Any]] = {}

    def run(self, func: Any, args: tuple, kwargs: dict | None) -> Any:
        """The result of an op, or `MORE`."""
        found = self._plans.get(id(func))
        if found is None:
            if not args or type(args[0]) not in _PLAIN:
                # A nested tensor asks for `aten.dim` and the like, which have no kernels: no plan can be made then.
                return MORE
            found = self._plans[id(func)] = (self._plan(func), func)
        plan = found[0]
        if plan is None or (kwargs and not _is_cast(func, args, kwargs)):
            return MORE
        if not self._are_plain(plan, args):
            return MORE
        kwargs = kwargs or {}
        if plan.is_view:
            if not self._observer.has_seen(args[0].untyped_storage()._cdata):
                return MORE
            self._observer.tick()
            result = func(*args)
        elif self._places.named is not None or (func is _ADD and self._adds_gradients()):
            return MORE
        else:
            result = self._counted(func, plan.rule, args, kwargs)
        if plan.likely is not None:
            plan.likely(func, args, kwargs, result)
        return result

    def _counted(self, func: Any, rule: Callable | None, args: tuple, kwargs: dict) -> Any:
        observer = self._observer
        observer.tick()
        result = observer.results.run(func, args, kwargs)
        if observer.recording:
            observer.record_on_gpu(func, rule, args, kwargs, result)
        return result

    def _are_plain(self, plan: _Plan, args: tuple) -> bool:
        """Whether all lie on the GPU, and what is known of them says nothing of the result."""
        lacks_values = False
        for place in plan.tensors:
            one = args[place] if place < len(args) else None
            if one is None:
                continue
            if type(one) not in _PLAIN or not one.is_meta or _IS_WRAPPED(one):
                return False
            if one.layout is not torch.strided:
                return False
            key = one.untyped_storage()._cdata
            if self._places.is_elsewhere(key):
                return False
            if plan.passes_on and (self._knows(key) or not MARKS.isdisjoint(one.__dict__)):
                return False
            # One that is not known is enough: nothing is computed then.
            lacks_values = lacks_values or (small_values.held_by(one) is None and one.numel() > 0)
        return lacks_values

    def _knows(self, storage_key: int) -> bool:
        observer = self._observer
        return (
            shares.knows(storage_key)
            or observer.scalars.knows(storage_key)
            or observer.chosen.knows(storage_key)
        )

    def _adds_gradients(self) -> bool:
        """Whether autograd may be adding up: it does so in place, or on a stream of its own."""
        return torch._C._current_graph_task_id() != -1 or self._observer.summing is not None

    def _plan(self, func: Any) -> _Plan | None:
        """None where there is more to do, whatever the op is given."""
        op = self._observer.facts_of(func)
        kinds = [str(argument.type) for argument in func._schema.arguments]
        tensors = tuple(place for place, kind in enumerate(kinds) if kind in _SINGLE)
        if not tensors or any("Tensor" in kind for kind in kinds if kind not in _SINGLE):
            return None
        if op.way != COMPUTES or op.makes_sparse or op.is_composite or op.stand_in is not None:
            return None
        if (op.may_be_known and func is not _TO_COPY) or draws_numbers(func):
            return None
        if func in self._followed or (op.is_noticed and func not in _PASS_ON):
            return None
        view = is_view(func)
        if view and (tensors != (0,) or func in CORRECTIONS or torch.Tag.inplace_view in func.tags):
            return None
        # What comes from the host is copied first; this is on the GPU already.
        rule = None if func is _TO_COPY else op.rule
        # Of a view, all that is likely is what is likely of its source.
        likely = None if view and op.is_noticed else op.likely
        return _Plan(tensors, view, op.is_noticed, rule, likely)


class _Plan(NamedTuple):
    """What is done for an op whose arguments are plain."""

    # The places of its arguments that are tensors.
    tensors: tuple[int, ...]
    is_view: bool
    # Whether something may be known of its result without its values.
    passes_on: bool
    rule: Callable | None
    likely: Callable | None


def _is_cast(func: Any, args: tuple, kwargs: dict) -> bool:
    """Whether it copies to another type, on the GPU. Masks become marks, which are followed."""
    if func is not _TO_COPY or args[0].dtype == torch.bool:
        return False
    device = kwargs.get("device")
    return device is None or device == _META
