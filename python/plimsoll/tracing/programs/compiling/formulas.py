"""Formulas of places in memory, which Inductor works out with SymPy: the same ones again and again.

Each is worked out once while a function is captured. What is asked depends on nothing but the formula.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any, Callable
from unittest import mock

import sympy
from sympy import Basic
from sympy.functions.elementary.miscellaneous import MinMaxBase
from torch._inductor import sizevars, utils
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .matching import quickly_matched

_REPLACE = "sympy_subs"
_UNITS = ("sympy.physics", "sympy.physics.units")


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
        replace, replaced = utils.sympy_subs, _replaced_once()
        for module in list(sys.modules.values()):
            # Each module of Inductor has it under its own name.
            if vars(module).get(_REPLACE) is replace:
                stack.enter_context(mock.patch.object(module, _REPLACE, replaced))
        stack.enter_context(_without_units())
        yield


@contextmanager
def _without_units() -> Iterator[None]:
    """SymPy asks of each formula that it makes simpler whether it has metres or seconds in it.

    To load all units of physics for that takes half a second.
    """
    missing = [name for name in _UNITS if name not in sys.modules]
    units: Any = ModuleType(_UNITS[-1])
    units.Quantity = type("Quantity", (Basic,), {})
    sys.modules.update(dict.fromkeys(missing, units))
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


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


def _replaced_once() -> Callable:
    """The variables of a formula, replaced by others: layers that are alike ask for the same."""
    replace = utils.sympy_subs
    known: dict[Any, Any] = {}

    def sympy_subs(formula: Any, by: dict[Any, Any]) -> Any:
        # Numbers that are equal may be of different kinds.
        key = formula, type(formula), *by.items(), *map(type, by.values())
        if key not in known:
            known[key] = replace(formula, by)
        return known[key]

    return sympy_subs


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
