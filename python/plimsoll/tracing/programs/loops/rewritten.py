"""The program's own files, with its loops over numbers led past turns that are alike.

In `for step in range(...)`, the range is wrapped; in the body of a `while`, `step += 1` is. In both, so are
comparisons of the number and what it is taken modulo. What any other `for` goes through, and the condition of a
`while`, are wrapped so that the loop can be ended early; the numbers that such a `for` counts are known, so that
it can be led past batches that are alike. All else stays as it is written, and so do the numbers of
the lines.
"""

from __future__ import annotations

import ast
import builtins
import functools
import operator
import os
import runpy
import sys
import sysconfig
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

import torch

from ...standins.patches import Patches
from ..watch import Watch
from . import syntax
from .batch_loops import BatchLoop, Number, Numbered
from .counters import Counter
from .patience import Items, Patience, Running
from .turns import Turns

_MAX_SOURCE_BYTES = 4 * 2**20
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# Folders of Python and its packages. Programs may lie below the root of a system Python, so it is not one of them.
_LIBRARIES = tuple(
    folder.rstrip(os.sep) + os.sep
    for folder in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, _OWN)
    if folder not in ("/", "/usr", "/usr/local")
)


def install(patches: Patches, watch: Watch) -> None:
    running = _Running(watch)
    patches.add(builtins, syntax.TURNS, running.turns)
    patches.add(builtins, syntax.ITEMS, running.items)
    patches.add(builtins, syntax.NUMBERED, running.numbered)
    patches.add(builtins, syntax.LED, running.led)
    patches.add(builtins, syntax.BEGINS, running.begins)
    patches.add(builtins, syntax.GOES_ON, running.goes_on)
    patches.add(builtins, syntax.COUNTED, running.counted)
    patches.add(builtins, syntax.MODULO, running.modulo)
    patches.add(builtins, syntax.VALUE, running.value)
    patches.add(builtins, syntax.GOAL, running.goal)
    of_file: Any = runpy._get_code_from_file  # type: ignore[attr-defined]

    def _get_code_from_file(*args: Any) -> Any:
        # The file's name alone, or after the module's; the code alone, or with that name.
        given = of_file(*args)
        code = given[0] if isinstance(given, tuple) else given
        code = _rewritten(args[-1], code)
        return (code, *given[1:]) if isinstance(given, tuple) else code

    patches.set(runpy, "_get_code_from_file", _get_code_from_file)
    get_code = SourceFileLoader.get_code

    def of_module(self: Any, name: str) -> Any:
        code = get_code(self, name)
        return code if code is None else _rewritten(self.get_filename(name), code)

    patches.set(SourceFileLoader, "get_code", of_module)


def _rewritten(path: str, code: CodeType) -> CodeType:
    """The code of a file of the program; the code as it is for all others."""
    if not path.endswith(".py") or not is_the_programs(os.path.abspath(path)):
        return code
    try:
        with open(path, "rb") as file:
            source = file.read(_MAX_SOURCE_BYTES + 1)
        if len(source) > _MAX_SOURCE_BYTES or not (b"for" in source or b"while" in source):
            return code
        loops = syntax.Loops(path)
        tree = ast.fix_missing_locations(loops.visit(ast.parse(source, path)))
        return compile(tree, path, "exec", dont_inherit=True) if loops.found else code
    except (OSError, ValueError, SyntaxError, RecursionError):
        return code


def is_the_programs(path: str) -> bool:
    parts = path.split(os.sep)
    named = "site-packages" in parts or "dist-packages" in parts
    return not (named or path.startswith(_LIBRARIES) or _is_installed(path))


def _is_installed(path: str) -> bool:
    """Whether it lies where packages were installed, in a folder of any name, as pip can be told."""
    folders = (os.path.abspath(folder) + os.sep for folder in sys.path if folder)
    return any(path.startswith(folder) and _holds_packages(folder) for folder in folders)


@functools.cache
def _holds_packages(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


class _Running:
    """What the wrapped places of a program call."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        # By the place of a loop: the one that runs, and the value that it looked at last.
        self._loops: dict[str, Turns | Counter | Number] = {}
        self._others: dict[str, Running] = {}
        self._batch_loops: dict[str, BatchLoop] = {}
        # By the place of a number that a loop counts: the loop, and its name.
        self._led: dict[str, tuple[BatchLoop, str]] = {}
        self._looked: dict[str, tuple[Any, int]] = {}

    def turns(self, loop: str, numbers: Any, yields: bool) -> Any:
        if type(numbers) is not range or torch.compiler.is_compiling():
            return numbers
        patience = None if yields else self._patience(loop)
        self._loops[loop] = Turns(numbers, self._watch, patience)
        return self._loops[loop]

    def _patience(self, loop: str) -> Patience:
        before = self._loops.get(loop)
        patience = before.patience if isinstance(before, (Turns, Counter)) else None
        return Patience(loop, self._watch, patience)

    def items(self, loop: str, given: Any) -> Any:
        if torch.compiler.is_compiling():
            return given
        return Items(given, self._begun(loop), self._batch_loop(loop))

    def _batch_loop(self, loop: str) -> BatchLoop:
        if loop not in self._batch_loops:
            self._batch_loops[loop] = BatchLoop(self._watch)
        return self._batch_loops[loop]

    def numbered(self, place: str, function: Any, given: Any, start: Any = 0) -> Any:
        """In the place of `enumerate`."""
        if function is not enumerate or type(start) is not int or torch.compiler.is_compiling():
            return function(given, start)
        loop, _, name = place.rpartition(":")
        batches = self._batch_loop(loop)
        self._loops[place] = batches.number(name)
        return Numbered(given, start, name, batches)

    def led(self, place: str, value: Any) -> Any:
        """At the beginning of a turn: a number that it counts, past the turns that were left out."""
        if type(value) is not int or torch.compiler.is_compiling():
            return value
        known = self._led.get(place)
        if known is None:
            loop, _, name = place.rpartition(":")
            known = self._led[place] = (self._batch_loop(loop), name)
            self._loops[place] = known[0].number(name)
        return known[0].begins_turn(known[1], value)

    def begins(self, loop: str) -> None:
        """Before a `while`."""
        if not torch.compiler.is_compiling():
            self._begun(loop)

    def _begun(self, loop: str) -> Running:
        self._others[loop] = Running(loop, self._watch, self._others.get(loop))
        return self._others[loop]

    def goes_on(self, loop: str) -> bool:
        """Where the condition of a `while` holds."""
        return torch.compiler.is_compiling() or self._others[loop].goes_on()

    def counted(self, loop: str, value: Any) -> Any:
        """One more, or as many more as there are turns that are alike."""
        if type(value) is not int or torch.compiler.is_compiling():
            return operator.iadd(value, 1)
        counter = self._loops.get(loop)
        if not isinstance(counter, Counter) or counter.number != value:
            # It begins, or begins again.
            self._loops[loop] = Counter(value, self._watch, self._patience(loop))
            return value + 1
        return counter.counted()

    def modulo(self, loop: str, value: Any, modulo: Any) -> Any:
        result = value % modulo
        if type(value) is int and type(modulo) is int and modulo > 0:
            self._looked[loop] = (value, modulo)
            self._see(loop, value, 0, modulo)
        return result

    def value(self, loop: str, value: Any) -> Any:
        self._looked[loop] = (value, 0)
        return value

    def goal(self, loop: str, goal: Any) -> Any:
        value, modulo = self._looked.get(loop, (None, 0))
        self._see(loop, value, goal, modulo)
        return goal

    def _see(self, loop: str, value: Any, goal: Any, modulo: int) -> None:
        turns = self._loops.get(loop)
        if isinstance(goal, float) and goal.is_integer():
            goal = int(goal)
        if turns is not None and type(value) is int and type(goal) is int:
            turns.looked(value, goal, modulo)
