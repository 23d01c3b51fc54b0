"""The loops of a program, as its syntax says them: what is wrapped in calls, and how these are named."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

_NAMES = "turns items numbered led begins goes_on counted modulo value goal"
TURNS, ITEMS, NUMBERED, LED, BEGINS, GOES_ON, COUNTED, MODULO, VALUE, GOAL = (
    f"__plimsoll_{name}__" for name in _NAMES.split()
)
# Calls that go through a range as it is.
_GOES_THROUGH = ("tqdm", "enumerate", "zip", "track")
# In the names of decorators.
_COMPILERS = ("compile", "jit", "script", "kernel", "triton", "custom_op", "tune")
_WITHOUT_GRADIENTS = ("no_grad", "inference_mode")
# Of a model's own methods, those that run it again and again: for one token, or one step of a diffusion, after another.
_GENERATES = {"generate", "sample"}


class Loops(ast.NodeTransformer):
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
        if node.name == "forward" or any(map(_compiles, node.decorator_list)):
            return node
        kept = self._around, self._counters, self._yields
        self._around, self._counters, self._yields = [], {}, _is_generator(node)
        self.generic_visit(node)
        self._around, self._counters, self._yields = kept
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        if any("Module" in ast.unparse(base) for base in node.bases):
            # The others may be parts of its passes.
            node.body = [self.visit(n) if _generates(n) else n for n in node.body]
            return node
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_For(self, node: ast.For) -> Any:
        loop = f"{self._path}:{node.lineno}"
        wrapped = _with_turns(node.iter, loop, self._yields)
        self.found = True
        if wrapped is None:
            return self._of_items(node, loop)
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

    def _of_items(self, node: ast.For, loop: str) -> ast.For:
        node.iter = self.visit(node.iter)
        around = len(self._around)
        if not self._yields:
            numbered = _numbered(node, loop)
            counted = sorted(set(_counted_in(node.body, ast.For)) - set(self._counters))
            self._around += [(f"{loop}:{name}", {name}) for name in (*numbered, *counted)]
            node.iter = _call(ITEMS, loop, node.iter)
        node.body = self._visit_all(node.body)
        if not self._yields:
            node.body = [*(_leads(loop, name, node) for name in counted), *node.body]
        del self._around[around:]
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
        node.test = ast.BoolOp(ast.And(), [node.test, _call(GOES_ON, loop)])
        begins = ast.copy_location(ast.Expr(_call(BEGINS, loop)), node)
        return [begins, node]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        name = _counted(node)
        if name not in self._counters:
            return node
        value = ast.parse(name, mode="eval").body
        counted = _call(COUNTED, self._counters[name], value)
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
        return node if loop is None else _call(MODULO, loop, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> Any:
        left, right = node.left, node.comparators[0]
        loop = self._loop_of(left)
        ordered = isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        known = len(node.ops) == 1 and ordered and self._loop_of(right) is None
        is_modulo = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
        self.generic_visit(node)
        if known and loop is not None:
            if not is_modulo:
                node.left = _call(VALUE, loop, node.left)
            node.comparators = [_call(GOAL, loop, node.comparators[0])]
        return node


def _call(function: str, loop: str, *values: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(loop), *values], [])


def _compiles(decorator: ast.expr) -> bool:
    """Whether it may read the function's code, as `torch.compile` and `triton.jit` do."""
    text = ast.unparse(decorator).lower()
    return any(word in text for word in _COMPILERS)


def _generates(node: ast.AST) -> bool:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    without = any(word in text for text in decorators for word in _WITHOUT_GRADIENTS)
    return without or not _GENERATES.isdisjoint(node.name.split("_"))


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


def _counted_in(body: list[Any], *others: type) -> Iterator[str]:
    """All that a loop counts up, except inside of functions and of other loops whose turns are left out."""
    left_out = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.While, *others)
    for node in body:
        if isinstance(node, left_out):
            continue
        if isinstance(node, ast.For) and _with_turns(copy.deepcopy(node.iter), "") is not None:
            continue
        if name := _counted(node):
            yield name
        for part in ("body", "orelse", "finalbody"):
            yield from _counted_in(getattr(node, part, []), *others)
        for handler in getattr(node, "handlers", []):
            yield from _counted_in(handler.body, *others)


def _numbered(loop_node: ast.For, loop: str) -> list[str]:
    """The name of the number in `for number, item in enumerate(items)`, whose items are wrapped."""
    call, target = _enumerated(loop_node.iter), loop_node.target
    if (
        call is None
        or not isinstance(target, ast.Tuple)
        or not isinstance(target.elts[0], ast.Name)
    ):
        return []
    name = target.elts[0].id
    call.args.insert(0, call.func)
    call.args.insert(0, ast.Constant(f"{loop}:{name}"))
    call.func = ast.Name(NUMBERED, ast.Load())
    return [name]


def _enumerated(node: ast.AST) -> ast.Call | None:
    """The call of `enumerate`, by itself or in a bar of progress."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name == "enumerate" and isinstance(node.func, ast.Name):
        return node
    return _enumerated(node.args[0]) if name in _GOES_THROUGH else None


def _leads(loop: str, name: str, at: ast.AST) -> ast.stmt:
    """The number of a loop as it is in a real run, where it is known already."""
    led = f"{LED}({loop + ':' + name!r}, {name})"
    text = f"try: {name} = {led}\nexcept (NameError, AttributeError): pass"
    statement = ast.parse(text).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, at)
    return statement


def _with_turns(node: ast.expr, loop: str, yields: bool = False) -> ast.expr | None:
    """What a loop goes through, with its range wrapped; None where there is none."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name == "range" and isinstance(node.func, ast.Name):
        return _call(TURNS, loop, node, ast.Constant(yields))
    if name in _GOES_THROUGH:
        for at, given in enumerate(node.args):
            wrapped = _with_turns(given, loop, yields)
            if wrapped is not None:
                node.args[at] = wrapped
                return node
    return None
