"""The program's own files, with its loops over numbers led past turns that are alike.

In `for step in range(...)`, the range is wrapped; in the body of a `while`, `step += 1` is. In both, so are
comparisons of the number and what it is taken modulo. What any other `for` goes through, and the condition of a
`while`, are wrapped so that the loop can be ended early. All else stays as it is written, and so do the numbers of
the lines.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import operator
import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

import torch

from ...standins.patches import Patches
from ..watch import Watch
from .counters import Counter
from .patience import Items, Patience, Running
from .turns import Turns

_TURNS, _ITEMS, _BEGINS, _GOES_ON, _COUNTED, _MODULO, _VALUE, _GOAL = (
    f"__plimsoll_{name}__"
    for name in ("turns", "items", "begins", "goes_on", "counted", "modulo", "value", "goal")
)
_MAX_SOURCE_BYTES = 4 * 2**20
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# Folders of Python and its packages. Programs may lie below the root of a system Python, so it is not one of them.
_LIBRARIES = tuple(
    folder.rstrip(os.sep) + os.sep
    for folder in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, _OWN)
    if folder not in ("/", "/usr", "/usr/local")
)
# Calls that go through a range as it is.
_GOES_THROUGH = ("tqdm", "enumerate", "zip", "track")


def install(patches: Patches, watch: Watch) -> None:
    running = _Running(watch)
    patches.add(builtins, _TURNS, running.turns)
    patches.add(builtins, _ITEMS, running.items)
    patches.add(builtins, _BEGINS, running.begins)
    patches.add(builtins, _GOES_ON, running.goes_on)
    patches.add(builtins, _COUNTED, running.counted)
    patches.add(builtins, _MODULO, running.modulo)
    patches.add(builtins, _VALUE, running.value)
    patches.add(builtins, _GOAL, running.goal)
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
    if not path.endswith(".py") or not _is_the_programs(os.path.abspath(path)):
        return code
    try:
        with open(path, "rb") as file:
            source = file.read(_MAX_SOURCE_BYTES + 1)
        if len(source) > _MAX_SOURCE_BYTES or not (b"for" in source or b"while" in source):
            return code
        loops = _Loops(path)
        tree = ast.fix_missing_locations(loops.visit(ast.parse(source, path)))
        return compile(tree, path, "exec", dont_inherit=True) if loops.found else code
    except (OSError, ValueError, SyntaxError, RecursionError):
        return code


def _is_the_programs(path: str) -> bool:
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


class _Loops(ast.NodeTransformer):
    def __init__(self, path: str) -> None:
        self._path = path
        self.found = False
        # Of each loop around: its place and the names that it counts with.
        self._around: list[tuple[str, set[str]]] = []
        # What the `while` around counts up, and its place for each.
        self._counters: dict[str, str] = {}
        # Whether the function around is a generator. Who goes through it may count on all that it has.
        self._yields = False

    def visit_FunctionDef(self, node: Any) -> Any:
        # A model's own passes may be compiled, and do not train.
        if node.name == "forward" or node.decorator_list:
            return node
        kept = self._around, self._counters, self._yields
        self._around, self._counters, self._yields = [], {}, _is_generator(node)
        self.generic_visit(node)
        self._around, self._counters, self._yields = kept
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        if any("Module" in ast.unparse(base) for base in node.bases):
            return node
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_For(self, node: ast.For) -> Any:
        loop = f"{self._path}:{node.lineno}"
        wrapped = _with_turns(node.iter, loop, self._yields)
        self.found = True
        if wrapped is None:
            node.iter = self.visit(node.iter)
            if not self._yields:
                node.iter = _call(_ITEMS, loop, node.iter)
            node.body = self._visit_all(node.body)
            node.orelse = self._visit_all(node.orelse)
            return node
        node.iter = wrapped
        names = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        self._around.append((loop, names))
        # Its turns are left out already.
        counters, self._counters = self._counters, {}
        node.body = self._visit_all(node.body)
        self._counters = counters
        self._around.pop()
        node.orelse = self._visit_all(node.orelse)
        return node

    def _visit_all(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            visited = self.visit(statement)
            found += visited if isinstance(visited, list) else [visited]
        return found

    def visit_While(self, node: ast.While) -> Any:
        names = set(_counted_in(node.body))
        counters, around = self._counters, len(self._around)
        self._counters = {name: f"{self._path}:{node.lineno}:{name}" for name in names}
        self._around += [(loop, {name}) for name, loop in self._counters.items()]
        self.found = True
        self.generic_visit(node)
        self._counters = counters
        del self._around[around:]
        if self._yields:
            return node
        loop = f"{self._path}:{node.lineno}"
        node.test = ast.BoolOp(ast.And(), [node.test, _call(_GOES_ON, loop)])
        begins = ast.copy_location(ast.Expr(_call(_BEGINS, loop)), node)
        return [begins, node]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        name = _counted(node)
        if name not in self._counters:
            return node
        value = ast.parse(name, mode="eval").body
        counted = _call(_COUNTED, self._counters[name], value)
        return ast.copy_location(ast.Assign([node.target], counted), node)

    def _loop_of(self, node: ast.AST) -> str | None:
        """The loop whose number this is about."""
        if not self._around:
            return None
        named = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
        used = {ast.unparse(n) for n in named}
        return next((loop for loop, names in reversed(self._around) if names & used), None)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        loop = self._loop_of(node.left) if isinstance(node.op, ast.Mod) else None
        self.generic_visit(node)
        return node if loop is None else _call(_MODULO, loop, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> Any:
        left, right = node.left, node.comparators[0]
        loop = self._loop_of(left)
        ordered = isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        known = len(node.ops) == 1 and ordered and self._loop_of(right) is None
        is_modulo = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
        self.generic_visit(node)
        if known and loop is not None:
            if not is_modulo:
                node.left = _call(_VALUE, loop, node.left)
            node.comparators = [_call(_GOAL, loop, node.comparators[0])]
        return node


def _call(function: str, loop: str, *values: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(loop), *values], [])


def _is_generator(function: Any) -> bool:
    """Whether it yields, except inside of functions of its own."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    nodes = list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, inner):
            nodes.extend(ast.iter_child_nodes(node))
    return False


def _counted(node: ast.AST) -> str:
    """What a statement counts up by one; nothing for others."""
    if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
        return ""
    by_one = isinstance(node.value, ast.Constant) and node.value.value == 1
    plain = isinstance(node.target, ast.Name) or (
        isinstance(node.target, ast.Attribute) and isinstance(node.target.value, ast.Name)
    )
    return ast.unparse(node.target) if by_one and plain else ""


def _counted_in(body: list[Any]) -> Iterator[str]:
    """All that a loop counts up, except inside of functions and of other loops whose turns are left out."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.While)):
            continue
        if isinstance(node, ast.For) and _with_turns(copy.deepcopy(node.iter), "") is not None:
            continue
        if name := _counted(node):
            yield name
        for part in ("body", "orelse", "finalbody"):
            yield from _counted_in(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from _counted_in(handler.body)


def _with_turns(node: ast.expr, loop: str, yields: bool = False) -> ast.expr | None:
    """What a loop goes through, with its range wrapped; None where there is none."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name == "range" and isinstance(node.func, ast.Name):
        return _call(_TURNS, loop, node, ast.Constant(yields))
    if name in _GOES_THROUGH:
        for at, given in enumerate(node.args):
            wrapped = _with_turns(given, loop, yields)
            if wrapped is not None:
                node.args[at] = wrapped
                return node
    return None


class _Running:
    """What the wrapped places of a program call."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        # By the place of a loop: the one that runs, and the value that it looked at last.
        self._loops: dict[str, Turns | Counter] = {}
        self._others: dict[str, Running] = {}
        self._looked: dict[str, tuple[Any, int]] = {}

    def turns(self, loop: str, numbers: Any, yields: bool) -> Any:
        if type(numbers) is not range or torch.compiler.is_compiling():
            return numbers
        patience = None if yields else self._patience(loop)
        self._loops[loop] = Turns(numbers, self._watch, patience)
        return self._loops[loop]

    def _patience(self, loop: str) -> Patience:
        before = self._loops.get(loop)
        return Patience(loop, self._watch, before.patience if before else None)

    def items(self, loop: str, given: Any) -> Any:
        if torch.compiler.is_compiling():
            return given
        return Items(given, self._begun(loop))

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
