"""Which way a program goes at a condition that only its data decide.

`if mask.any(): loss = loss + part(x[mask])` is about rows that are taken, and the most is counted: the program goes
the way that works on them. `if (x < 0).any(): raise ...` is about what should not be. Which of both it is can be read
in the program.
"""

from __future__ import annotations

import ast
import functools
import sys
from typing import Any

from .rewritten import is_the_programs

_MAX_SOURCE_BYTES = 4 * 2**20
_BRANCHES = (ast.If, ast.IfExp, ast.Assert)
_LEAVES = (ast.Raise, ast.Break, ast.Continue)
_ENDS = ("exit", "quit", "abort")


def some_are_taken() -> bool | None:
    """The answer to `mask.any()` at the line that runs now; None if that line is not a condition."""
    branch = _asking_branch(sys._getframe(1))
    return None if branch is None else _works(branch)


def holds() -> bool | None:
    """What a condition is for the program to go on, where it fails otherwise; None where it does not."""
    branch = _asking_branch(sys._getframe(1))
    if isinstance(branch, ast.Assert):
        return not _is_negated(branch)
    if isinstance(branch, ast.If) and any(isinstance(one, ast.Raise) for one in branch.body):
        return _is_negated(branch)
    return None


def _asking_branch(frame: Any) -> Any:
    """The condition at the innermost line of the program that runs now."""
    while frame is not None and not is_the_programs(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _branches(frame.f_code.co_filename).get(frame.f_lineno)


def _is_negated(branch: Any) -> bool:
    return isinstance(branch.test, ast.UnaryOp) and isinstance(branch.test.op, ast.Not)


@functools.cache
def _branches(path: str) -> dict[int, Any]:
    """The conditions of a file, by the lines on which they are asked; the innermost of several."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(_MAX_SOURCE_BYTES), path)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}
    found: dict[int, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, _BRANCHES):
            last = node.test.end_lineno or node.test.lineno
            found.update(dict.fromkeys(range(node.test.lineno, last + 1), node))
    return found


def _works(branch: Any) -> bool:
    """Whether the program goes on with what is chosen if there is any."""
    negated = _is_negated(branch)
    if isinstance(branch, ast.Assert):
        return not negated
    if negated:
        return True
    if isinstance(branch, ast.IfExp):
        return not isinstance(branch.body, ast.Constant)
    return not any(map(_is_left, branch.body))


def _is_left(statement: ast.stmt) -> bool:
    """Whether the program goes no further here, or has nothing to go on with."""
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.unparse(statement.value.func).rpartition(".")[2] in _ENDS
    return isinstance(statement, _LEAVES)
