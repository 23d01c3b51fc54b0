"""Formulas of places in memory, which Inductor works out with SymPy: the same ones again and again.

Each is worked out once while a function is captured. What is asked depends on nothing but the formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, Callable
from unittest import mock

import sympy
from sympy import Basic
from sympy.functions.elementary.miscellaneous import MinMaxBase
from torch._inductor import sizevars
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .matching import quickly_matched


@contextmanager
def formulas_once() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(MinMaxBase, "__new__", _made_once()))
        stack.enter_context(mock.patch.object(SizeVarAllocator, "simplify", _expanded_once()))
        stack.enter_context(mock.patch.object(Basic, "match", quickly_matched(Basic.match)))
        ranges = "_simplify_with_ranges"
        if hasattr(SizeVarAllocator, ranges):
            quick = _without_divisions(getattr(SizeVarAllocator, ranges))
            stack.enter_context(mock.patch.object(SizeVarAllocator, ranges, quick))
        # PyTorch keeps the last 256 of these.
        joined = getattr(getattr(sizevars, "_join_dimensions_cached", None), "__wrapped__", None)
        if joined is not None:
            every = lru_cache(maxsize=None)(joined)
            stack.enter_context(mock.patch.object(sizevars, "_join_dimensions_cached", every))
        yield


def _made_once() -> Callable:
    """A minimum or a maximum: SymPy compares each part with each other one."""
    make = MinMaxBase.__new__
    known: dict[Any, Any] = {}

    def __new__(cls: Any, *args: Any, **settings: Any) -> Any:
        if settings:
            return make(cls, *args, **settings)
        # Numbers that are equal may be of different kinds.
        key = cls, args, tuple(map(type, args))
        if key not in known:
            known[key] = make(cls, *args)
        return known[key]

    return __new__


def _expanded_once() -> Callable:
    known: dict[Any, Any] = {}

    def simplify(self: Any, formula: Any) -> Any:
        key = type(formula), formula
        if key not in known:
            known[key] = sympy.expand(formula)
        return known[key].xreplace(self.replacements)

    return simplify


def _without_divisions(work_out: Callable) -> Callable:
    """How large its parts may be matters for divisions only."""

    def _simplify_with_ranges(self: Any, formula: Any, ranges: Any) -> Any:
        simple = sizevars.join_dimensions(self.simplify(formula))
        if simple.has(ModularIndexing, FloorDiv):
            return work_out(self, formula, ranges)
        return simple

    return _simplify_with_ranges
