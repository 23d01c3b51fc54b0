"""Parts of formulas that Inductor looks for: divisions with a remainder, and multiples of them.

SymPy solves for the unknown parts of such a pattern. In a number times a division they can be read off.
"""

from __future__ import annotations

from typing import Any, Callable

from sympy import Add, Expr, Integer, Mul, S, Symbol, Wild
from torch.utils._sympy.functions import ModularIndexing


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
