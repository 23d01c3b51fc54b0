"""Whether a program evaluates with what it compiles, by its source: many train with the compiled model and evaluate
with the plain one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_WITHOUT_GRADIENTS = {"no_grad", "inference_mode"}
_STEPS = {"validation_step", "test_step", "predict_step"}
# An evaluation of a Trainer, which compiles by a setting.
_TRAINER = "eval_dataset"


def evaluates(sources: Iterable[str]) -> bool:
    """The program's own files. A guess: what a name stands for is not followed."""
    nodes = [node for source in sources for node in ast.walk(_parsed(source))]
    compiled = {name for node in nodes for name in _compiled(node)}
    if not compiled:
        return any(isinstance(node, ast.keyword) and node.arg == _TRAINER for node in nodes)
    places = [node for node in nodes if _is_evaluation(node)]
    # A function that evaluates what it is given, beside other things.
    evaluating = {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef) and any(map(_is_evaluation, ast.walk(node)))
    }
    places += [
        node for node in nodes if isinstance(node, ast.Call) and _name(node.func) in evaluating
    ]
    return any(_name(node) in compiled for place in places for node in ast.walk(place))


def _parsed(source: str) -> ast.AST:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _compiled(node: ast.AST) -> Iterator[str]:
    """The names of what a statement compiles: `fast = torch.compile(model)`, `model.compile()`, `@torch.compile`."""
    if isinstance(node, ast.Assign) and any(map(_compiles, ast.walk(node.value))):
        yield from filter(None, map(_name, node.targets))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        if isinstance(called, ast.Attribute) and called.attr == "compile":
            yield _name(called.value) or ""
    elif isinstance(node, ast.FunctionDef) and any(
        _compiles(part) for one in node.decorator_list for part in ast.walk(one)
    ):
        yield node.name


def _compiles(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute) and node.attr == "compile" and _name(node.value) == "torch"
    )


def _is_evaluation(node: ast.AST) -> bool:
    """A block or a function without gradients, or a step of Lightning that evaluates."""
    if isinstance(node, ast.With):
        return any(_without_gradients(item.context_expr) for item in node.items)
    if not isinstance(node, ast.FunctionDef):
        return False
    return node.name in _STEPS or any(map(_without_gradients, node.decorator_list))


def _without_gradients(node: ast.AST) -> bool:
    return _name(node.func if isinstance(node, ast.Call) else node) in _WITHOUT_GRADIENTS


def _name(node: ast.AST) -> str | None:
    """Of a variable, an attribute or a parameter."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None
