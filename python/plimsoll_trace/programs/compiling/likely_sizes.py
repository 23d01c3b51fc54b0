"""What a fork does for the sizes that are likely to come."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, NamedTuple

import torch
from torch.utils import data

from ..places import GPU
from .lowering_fork import Work
from .parts import Parts

# Of a leaf: its shape, None where it is no tensor.
Shapes = tuple[Any, ...]


# Whether a program evaluates with what it compiles, by its source: many train with the compiled model and evaluate
# with the plain one.

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


# Which sizes a compiled function will be called with, once it trains with one.

# Each takes a while, and with many loaders few guesses are right.
_MAX_SIZES = 4


class Loads(NamedTuple):
    """What is known of a loader."""

    batch: int
    samples: int
    # Whether a last batch that is short is left out.
    drops: bool


class Size(NamedTuple):
    # None: as in the call at hand.
    batch: int | None
    trains: bool


def likely(
    rows: Sequence[int], read: Loads | None, others: Sequence[Loads], evaluates: bool
) -> list[Size]:
    """In the order in which they will come. rows: of the tensors that the function is given; read: the loader that
    they come from; others: those that an evaluation may read; evaluates: whether the program has any."""
    found: list[Size] = []
    scales = read is not None and read.batch in rows
    if read is not None and scales and (short := _short(read)):
        found.append(Size(short, trains=True))
    if not evaluates:
        return found
    if not scales or not others:
        return [*found, Size(None, trains=False)]
    for loader in others:
        whole = min(loader.batch, loader.samples)
        usual = None if read is not None and whole == read.batch else whole
        found.append(Size(usual, trains=False))
        if loader.samples > loader.batch and (short := _short(loader)):
            found.append(Size(short, trains=False))
    return list(dict.fromkeys(found))[:_MAX_SIZES]


def _short(loader: Loads) -> int:
    """Samples of a last batch that has fewer than the others; 0 where there is none."""
    return 0 if loader.drops or loader.samples < loader.batch else loader.samples % loader.batch


def shapes_of(leaves: list) -> Shapes:
    return tuple(tuple(one.shape) if isinstance(one, torch.Tensor) else None for one in leaves)


def plan_of(calls: Any, given: Parts, modules: list) -> dict[Hashable, Work]:
    """For a function that is captured for the first time; nothing where it does not train, or where a function that
    is like it was planned for: blocks of a model are compiled one by one."""
    shapes = shapes_of(given.leaves)
    if not torch.is_grad_enabled() or not any(module.training for module in modules):
        return {}
    if not calls.observer.coming.is_new(
        (*(type(module).__qualname__ for module in modules), shapes)
    ):
        return {}
    read, others = _loaders(calls.observer)
    rows = [shape[0] for shape in shapes if shape]
    plan: dict[Hashable, Work] = {}
    for size in likely(rows, read, others, evaluates(_sources())):
        sized = _sized(shapes, read, size)
        plan[id(calls), size.trains, sized] = _work(calls, given, modules, sized, size.trains)
    return plan


def _sized(shapes: Shapes, read: Loads | None, size: Size) -> Shapes:
    if size.batch is None or read is None:
        return shapes
    return tuple(
        (size.batch, *shape[1:]) if shape and shape[0] == read.batch else shape for shape in shapes
    )


def _work(calls: Any, given: Parts, modules: list, shapes: Shapes, trains: bool) -> Work:
    def work() -> None:
        """In the fork, where all may be changed."""
        from .capture import capture

        parts = copy(given)
        parts.leaves = _resized(given.leaves, shapes, calls.places)
        if not trains:
            for module in modules:
                module.eval()
        with torch.set_grad_enabled(trains):
            capture(calls, parts, modules)

    return work


def _resized(leaves: list, shapes: Shapes, places: Any) -> list:
    """A tensor that is given twice, as words that are their own labels, stays one."""
    made: dict[int, Any] = {}
    for leaf, shape in zip(leaves, shapes):
        if id(leaf) not in made:
            same = shape is None or tuple(leaf.shape) == shape
            made[id(leaf)] = leaf if same else _like(leaf, shape, places)
    return [made[id(leaf)] for leaf in leaves]


def _like(leaf: Any, shape: Any, places: Any) -> Any:
    with places.naming(GPU), torch._C.DisableTorchFunction():
        made = torch.empty_strided(shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
        return made.requires_grad_(leaf.requires_grad)


def _loaders(observer: Any) -> tuple[Loads | None, list[Loads]]:
    """The one that is read, and the others, in the order in which they were made."""
    read = observer.read_loader() if observer.read_loader is not None else None
    others = [one for one in (known() for known in observer.loaders) if one is not None]
    found = [_loads(one) for one in others if one is not read]
    return _loads(read), [one for one in found if one is not None]


def _loads(loader: Any) -> Loads | None:
    batches = getattr(loader, "_index_sampler", None)
    if type(batches) is not data.BatchSampler:
        return None
    with suppress(Exception):
        return Loads(batches.batch_size, len(batches.sampler), batches.drop_last)
    return None


def _sources() -> Iterator[str]:
    """Of the program's own files."""
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main is None:
        return
    folder = os.path.dirname(os.path.abspath(main)) + os.sep
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for file in sorted({os.path.abspath(file) for file in files if file}):
        if file.startswith(folder) and file.endswith(".py") and "site-packages" not in file:
            with suppress(OSError), open(file, encoding="utf-8", errors="replace") as source:
                yield source.read()
