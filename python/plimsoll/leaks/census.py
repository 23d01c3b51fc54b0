"""What lives at one instant: tensors, objects by type, large containers."""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from typing import Any, NamedTuple

from .holders import of_the_program

# A container with fewer elements holds no leak worth telling.
LARGE = 1000
CONTAINERS = (list, dict, set, deque)

# Shape, type and device of a tensor.
Kind = tuple[tuple[int, ...], str, str]


class Census(NamedTuple):
    """Counts alone: nothing that was counted is kept alive."""

    tensors: Counter[Kind]
    sizes: dict[Kind, int]
    with_graph: Counter[Kind]
    # By the module and the name of the type.
    objects: Counter[tuple[str, str]]
    # By id: the type, and how many elements.
    containers: dict[int, tuple[str, int]]
    modules: frozenset[str]


def take_census() -> Census:
    """Looks at every object that Python's garbage collector knows: some 0.1 s for a million."""
    everything = gc.get_objects()
    # Counted and sorted out by their types: a step of Python for each object would take ten times as long.
    types = Counter(map(type, everything))
    torch = sys.modules.get("torch")
    role = {kind: _role(kind, torch) for kind in types}
    wanted = {kind for kind, found in role.items() if found is not None}
    containers = {}
    tensors: list[Any] = []
    owned: set[int] = set()
    for one in [one for one in everything if type(one) in wanted]:
        kind = type(one)
        if role[kind] == "container":
            if len(one) >= LARGE:
                containers[id(one)] = (kind.__name__, len(one))
        elif role[kind] == "tensor":
            tensors.append(one)
        else:
            owned.update(_owned(one, role[kind]))
    del everything
    for one in of_the_program(CONTAINERS):
        if len(one) >= LARGE:
            containers[id(one)] = (type(one).__name__, len(one))
    kinds, sizes, with_graph = _count(tensors, owned)
    names: Counter[tuple[str, str]] = Counter()
    for kind, count in types.items():
        names[str(getattr(kind, "__module__", "?")), str(getattr(kind, "__qualname__", "?"))] += (
            count
        )
    return Census(kinds, sizes, with_graph, names, containers, frozenset(sys.modules))


def _role(kind: type, torch: Any) -> str | None:
    """What a census does with objects of a type. By the type: asking an object can run code of its own."""
    if kind in CONTAINERS:
        return "container"
    if torch is None:
        return None
    if issubclass(kind, torch.Tensor):
        return "tensor"
    if issubclass(kind, torch.nn.Module):
        return "module"
    return "optimizer" if issubclass(kind, torch.optim.Optimizer) else None


def count_tensors() -> tuple[Counter[Kind], dict[Kind, int]]:
    """The tensors alone, which is quicker; parameters are left out."""
    torch = sys.modules.get("torch")
    if torch is None:
        return Counter(), {}
    found = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    kinds, sizes, _ = _count(found, set())
    return kinds, sizes


def kind_of(tensor: Any) -> Kind | None:
    """None for a parameter, for a tensor without memory of its own, and for what is not a tensor any more."""
    try:
        if type(tensor).__name__ == "Parameter" or _is_empty(type(tensor)):
            return None
        shape = tuple(tensor.shape)
        # Sizes of a compiler are symbols: they cannot be compared without an effect on what it compiles.
        if any(type(size) is not int for size in shape):
            return None
        return shape, str(tensor.dtype).replace("torch.", ""), str(tensor.device)
    except Exception:
        # A weak proxy whose object died in between, a tensor of a foreign kind.
        return None


def _is_empty(kind: type) -> bool:
    """A distributed or jagged tensor holds others, which are counted; a fake one holds nothing."""
    return hasattr(kind, "__tensor_flatten__") or kind.__module__ == "torch._subclasses.fake_tensor"


def _bytes_of(tensor: Any) -> int:
    layout = str(tensor.layout)
    if layout == "torch.sparse_coo":
        parts = [tensor._indices(), tensor._values()]
    elif layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif layout in ("torch.sparse_csc", "torch.sparse_bsc"):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    else:
        return int(tensor.numel() * tensor.element_size())
    return sum(_bytes_of(part) for part in parts)


def _count(
    tensors: list[Any], owned: set[int]
) -> tuple[Counter[Kind], dict[Kind, int], Counter[Kind]]:
    kinds: Counter[Kind] = Counter()
    with_graph: Counter[Kind] = Counter()
    sizes: dict[Kind, int] = {}
    for one in tensors:
        kind = None if id(one) in owned else kind_of(one)
        if kind is None:
            continue
        kinds[kind] += 1
        try:
            sizes[kind] = _bytes_of(one)
            with_graph[kind] += one.grad_fn is not None
        except Exception:
            sizes.setdefault(kind, 0)
    return kinds, sizes, with_graph


def _owned(one: Any, role: str | None) -> list[int]:
    """Tensors that belong to a model or an optimizer: its own, however many they are."""
    try:
        if role == "module":
            return [id(buffer) for buffer in one._buffers.values() if buffer is not None]
        states = [
            value
            for state in one.state.values()
            if isinstance(state, dict)
            for value in state.values()
        ]
        return [id(value) for value in states]
    except Exception:
        # Half built, or of a foreign kind.
        return []
