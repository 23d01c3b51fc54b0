"""Loops that wait for values: `while not done.all()`. With no values to look at, they would go on for ever.

An answer that keeps such a loop running is given so many times; then the other one is given, once.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from types import CodeType, FrameType
from typing import Any

import torch

# Turns until then: where the answer is a guess, and where it is computed from values that are known.
_GUESSED, _KNOWN = 100, 200
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# Between the code that asks a tensor and the observer that answers.
_BETWEEN = (
    _OWN,
    *(_TORCH + name for name in ("_compile.py", "_ops.py", "_tensor.py", "overrides.py")),
    *(_TORCH + name + os.sep for name in ("_dynamo", "utils")),
)


class Waiting:
    def __init__(self) -> None:
        # By place in the code: for which frame, and how many times the same was answered.
        self._turns: dict[tuple[CodeType, int], tuple[int, Any, int]] = {}

    def ends(self, value: Any, known: bool) -> Any:
        """The answer, or the other one where a loop has waited for it long enough."""
        frame = _asking()
        if frame is None or frame.f_lineno not in _conditions(frame.f_code.co_filename):
            return value
        place = (frame.f_code, frame.f_lasti)
        running, before, turns = self._turns.get(place, (0, None, 0))
        turns = turns + 1 if running == id(frame) and before == value else 1
        if turns <= (_KNOWN if known else _GUESSED):
            self._turns[place] = (id(frame), value, turns)
            return value
        del self._turns[place]
        return not value


def _asking() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return frame


@functools.cache
def _conditions(path: str) -> frozenset[int]:
    """The lines of a file on which a `while` decides whether to go on."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    lines: set[int] = set()
    for loop in ast.walk(tree):
        if isinstance(loop, ast.While):
            for test in _tests(loop):
                lines.update(range(test.lineno, (test.end_lineno or test.lineno) + 1))
    return frozenset(lines)


def _tests(loop: ast.While) -> list[ast.expr]:
    if not isinstance(loop.test, ast.Constant):
        return [loop.test]
    # `while True` is left from inside.
    inside = (node for statement in loop.body for node in ast.walk(statement))
    return [node.test for node in inside if isinstance(node, ast.If) and _leaves(node)]


def _leaves(branch: ast.If) -> bool:
    ends = (branch.body[-1], *branch.orelse[-1:])
    return any(isinstance(end, (ast.Break, ast.Return)) for end in ends)
