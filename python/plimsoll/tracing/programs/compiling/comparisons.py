"""Sizes that are numbers, compared as numbers; formulas once.

Inductor asks SymPy, which first looks at what is known of both sides, and at how their kinds compare.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable
from unittest import mock

from sympy import Basic, Eq, Expr, Ge, Gt, Integer, Le, Lt, S
from sympy.core.relational import _Inequality
from sympy.logic.boolalg import BooleanAtom
from torch import _prims_common
from torch._inductor import lowering
from torch._inductor.sizevars import SizeVarAllocator

_COMPARED: dict[type, Callable] = {
    Eq: operator.eq,
    Ge: operator.ge,
    Gt: operator.gt,
    Le: operator.le,
    Lt: operator.lt,
}
# Older ones ask for it under another name.
_DENSE = "_is_non_overlapping_and_dense_or_false"


@contextmanager
def compared_once() -> Iterator[None]:
    with ExitStack() as stack:
        for kind in (Eq, _Inequality):
            new = _compared_at_once(kind.__new__)
            stack.enter_context(mock.patch.object(kind, "__new__", new))
        answer = _answered_at_once(SizeVarAllocator.evaluate_expr)
        stack.enter_context(mock.patch.object(SizeVarAllocator, "evaluate_expr", answer))
        stack.enter_context(mock.patch.object(Expr, "is_constant", _told_once(Expr.is_constant)))
        types = _types_once(lowering.get_promoted_dtype)
        stack.enter_context(mock.patch.object(lowering, "get_promoted_dtype", types))
        if hasattr(_prims_common, _DENSE):
            dense = _dense_once(getattr(_prims_common, _DENSE))
            stack.enter_context(mock.patch.object(_prims_common, _DENSE, dense))
        yield


def _compared_at_once(make: Callable) -> Callable:
    known: dict[Any, Any] = {}

    def __new__(cls: Any, left: Any, right: Any, **options: Any) -> Any:
        if options or cls not in _COMPARED or not isinstance(left, (Basic, int)):
            return make(cls, left, right, **options)
        if _is_number(left) and _is_number(right):
            return S.true if _COMPARED[cls](int(left), int(right)) else S.false
        if not isinstance(right, (Basic, int)):
            return make(cls, left, right)
        # Numbers that are equal may be of different kinds.
        key = cls, left, right, type(left), type(right)
        if key not in known:
            known[key] = make(cls, left, right)
        return known[key]

    return __new__


def _is_number(value: Any) -> bool:
    return isinstance(value, Integer) or type(value) is int


def _answered_at_once(ask: Callable) -> Callable:
    """PyTorch looks for guards and writes logs also where the answer is known."""

    def evaluate_expr(self: Any, formula: Any, *args: Any, **settings: Any) -> Any:
        if isinstance(formula, BooleanAtom):
            return formula
        return ask(self, formula, *args, **settings)

    return evaluate_expr


def _told_once(tell: Callable) -> Callable:
    """Whether a formula has one value only: SymPy tries some, and looks for the fractions that they are."""
    known: dict[Any, Any] = {}

    def is_constant(self: Any, *wrt: Any, **flags: Any) -> Any:
        if wrt or flags:
            return tell(self, *wrt, **flags)
        key = type(self), self
        if key not in known:
            known[key] = tell(self)
        return known[key]

    return is_constant


def _dense_once(ask: Callable) -> Callable:
    """Whether a tensor has no gaps: PyTorch makes a class to find it, each time."""
    known: dict[Any, bool] = {}

    def is_dense(sizes: Any, strides: Any) -> bool:
        if not all(type(one) is int for one in (*sizes, *strides)):
            return ask(sizes, strides)
        key = tuple(sizes), tuple(strides)
        if key not in known:
            known[key] = ask(sizes, strides)
        return known[key]

    return is_dense


def _types_once(find: Callable) -> Callable:
    """The type of a result: PyTorch makes tensors to find it, each time."""
    known: dict[Any, Any] = {}

    def get_promoted_dtype(*args: Any, **settings: Any) -> Any:
        key = tuple(map(_kind, args)), tuple(settings.items())
        if None in key[0]:
            return find(*args, **settings)
        if key not in known:
            known[key] = find(*args, **settings)
        return known[key]

    return get_promoted_dtype


def _kind(value: Any) -> Any:
    """Of an argument: all that the type of the result depends on; None where that is not known."""
    if isinstance(value, (bool, int, float)):
        return type(value)
    if hasattr(value, "get_dtype") and hasattr(value, "get_size"):
        return len(value.get_size()), value.get_dtype()
    return None
