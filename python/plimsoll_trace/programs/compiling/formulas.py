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
from sympy import Add, Basic, Expr, Integer, Mul, S, Symbol, Wild
from sympy.functions.elementary.miscellaneous import MinMaxBase
from torch._inductor import sizevars, utils
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

_REPLACE = "sympy_subs"
_UNITS = ("sympy.physics", "sympy.physics.units")


# Parts of formulas that Inductor looks for: divisions with a remainder, and multiples of them.
#
# SymPy solves for the unknown parts of such a pattern. In a number times a division they can be read off.


def quickly_matched(solve: Callable) -> Callable:
    """In place of `Basic.match`."""

    def match(self: Any, pattern: Any, old: bool = False) -> Any:
        if old or not isinstance(pattern, Expr):
            return solve(self, pattern, old=old)
        # Without unknown parts there is nothing to solve.
        if not pattern.has(Wild):
            return {} if self == pattern else None
        if (terms := _excluded_term(pattern)) is not None:
            variable, rest = terms
            return rest.matches(self - variable)
        wanted, found = _parts(pattern), _parts(self)
        if wanted is None or not all(map(_is_simple, wanted)):
            return solve(self, pattern)
        if found is not None:
            return _compared(found, wanted)
        return solve(self, pattern) if self.has(ModularIndexing) else None

    return match


def _excluded_term(pattern: Any) -> tuple[Any, Any] | None:
    """Of a sum of a variable and what does not depend on it: both."""
    if type(pattern) is not Add or len(pattern.args) != 2:
        return None
    variable, rest = pattern.args
    if type(variable) is Wild:
        variable, rest = rest, variable
    known = isinstance(variable, Symbol) and type(variable) is not Wild and type(rest) is Wild
    return (variable, rest) if known and rest.exclude == (variable,) else None


def _parts(formula: Any) -> tuple[Any, ...] | None:
    """Of a factor times a division: the factor, what is divided, by what, and what the remainder is taken of."""
    if type(formula) is ModularIndexing:
        return (S.One, *formula.args)
    if type(formula) is not Mul or len(formula.args) != 2:
        return None
    first, second = formula.args
    if type(first) is ModularIndexing:
        first, second = second, first
    known = isinstance(first, Integer) or type(first) is Wild
    return (first, *second.args) if known and type(second) is ModularIndexing else None


def _is_simple(part: Any) -> bool:
    return type(part) is Wild or not part.has(Wild)


def _compared(parts: tuple[Any, ...], wanted: tuple[Any, ...]) -> dict[Any, Any] | None:
    found: dict[Any, Any] = {}
    for part, pattern in zip(parts, wanted):
        if type(pattern) is Wild:
            if pattern.matches(part) is None or found.setdefault(pattern, part) != part:
                return None
        elif part != pattern:
            return None
    return found


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
