"""What a fork does for the sizes that are likely to come."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterator
from contextlib import suppress
from copy import copy
from typing import Any

import torch
from torch.utils import data

from ...places import GPU
from ..parts import Parts
from .evaluations import evaluates
from .fork import Work
from .likely import Loads, Size, likely

# Of a leaf: its shape, None where it is no tensor.
Shapes = tuple[Any, ...]


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
        from ..capture import capture

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
