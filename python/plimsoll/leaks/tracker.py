"""Finds what grows from step to step: tensors, objects one watches, lines that allocate."""

from __future__ import annotations

import gc
import logging
import sys
import tracemalloc
import weakref
from collections import Counter, deque
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any, Callable, NamedTuple

from ..arguments import BadType, BadValue, function, text, truth, whole

# What lives at one instant: tensors, objects by type, large containers.

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


# Who holds an object, in words a person can search for: a variable of a module, an attribute, a closure.

# From an element to its list, to the dictionary that holds the list, to the object that owns that.
MAX_STEPS = 4
LOCAL = "a local variable"


def holder_of(thing: Any, ignore: set[int] | None = None) -> str | None:
    """`module.name`, `Class.attribute`, or where it else is; None when a library holds it."""
    return _search(thing, set(ignore or ()), MAX_STEPS)


def _search(thing: Any, seen: set[int], steps: int) -> str | None:
    seen.add(id(thing))
    referrers = [
        one
        for one in gc.get_referrers(thing)
        if id(one) not in seen and not isinstance(one, FrameType)
    ]
    seen.update((id(referrers), id(seen)))
    variable = _variable(thing)
    if variable is not None:
        return variable
    if not referrers:
        return LOCAL
    for one in referrers:
        name = _named(one, thing)
        if name is not None:
            return name or None
    if steps == 0:
        return None
    for one in referrers:
        if isinstance(one, CellType):
            return _closure(one)
        if isinstance(one, (list, dict, set, tuple)):
            name = _search(one, seen, steps - 1)
            if name is not None:
                return name
    return None


def _variable(thing: Any) -> str | None:
    """The variable of a module of the program that holds it: after `gc.freeze` the collector names none."""
    for module in _program_modules():
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if value is thing:
                return f"{module.__name__}.{key}"
    return None


def _closure(cell: CellType) -> str | None:
    """The function whose variable it is, where it is one of the program."""
    for closure in gc.get_referrers(cell):
        for one in gc.get_referrers(closure) if isinstance(closure, tuple) else ():
            if isinstance(one, FunctionType) and one.__closure__ is closure:
                return (
                    None
                    if is_library(sys.modules.get(one.__module__))
                    else f"a variable of {one.__qualname__}"
                )
    return None


def _named(owner: Any, thing: Any) -> str | None:
    """The name under which this one holds it; empty when it is a library's; None when it has no name for it."""
    if isinstance(owner, dict):
        key = next(
            (key for key, value in list(owner.items()) if value is thing and isinstance(key, str)),
            None,
        )
        if key is None:
            return None
        if "__name__" in owner and "__spec__" in owner:
            module = sys.modules.get(owner["__name__"])
            return "" if is_library(module) else f"{owner['__name__']}.{key}"
        owner = next((one for one in gc.get_referrers(owner) if _space(one) is owner), None)
        return None if owner is None else _named(owner, thing)
    if isinstance(owner, ModuleType):
        return None
    space = _space(owner)
    key = (
        next((key for key, value in list(space.items()) if value is thing), None) if space else None
    )
    if key is None:
        return None
    kind = owner if isinstance(owner, type) else type(owner)
    return "" if is_library(sys.modules.get(kind.__module__)) else f"{kind.__qualname__}.{key}"


def _space(one: Any) -> Any:
    try:
        space = object.__getattribute__(one, "__dict__")
    except Exception:
        return None
    return space if hasattr(space, "items") else None


def is_library(module: Any) -> bool:
    """Python's own modules and installed packages; the program's own files are not."""
    if module is None or getattr(module, "__name__", "") == "__main__":
        return False
    path = getattr(module, "__file__", None) or ""
    return path == "" or "site-packages" in path or path.startswith(f"{sys.base_prefix}/lib")


def _program_modules() -> list[ModuleType]:
    return [module for module in list(sys.modules.values()) if not is_library(module)]


def of_the_program(kinds: tuple[type, ...]) -> list[Any]:
    """Objects of exactly these types in variables of the program's own modules.

    The garbage collector does not know a dictionary that holds texts and numbers alone.
    """
    return [
        value
        for module in _program_modules()
        for value in list(getattr(module, "__dict__", {}).values())
        if type(value) in kinds
    ]


def alive(kinds: tuple[type, ...]) -> list[Any]:
    """All live objects of exactly these types, each once."""
    found = [one for one in gc.get_objects() if type(one) in kinds] + of_the_program(kinds)
    return list({id(one): one for one in found}.values())


log = logging.getLogger("plimsoll")

# Steps in which something must grow, one after the other, before it is called a leak.
STEPS_OF_GROWTH = 3
TOP = 10


class LeakTracker:
    """`watch` objects that should die; `check` after each step; `report` what did not, and what grew."""

    def __init__(self, python: bool = False, top: int = TOP) -> None:
        truth("python", python)
        whole("top", top, 1)
        self._watched: dict[int, tuple[str, Any]] = {}
        self._stale: dict[int, tuple[int, Callable[[Any], Any]]] = {}
        self._checks = 0
        self._tensors: list[Counter[Any]] = []
        self._sizes: dict[tuple[Any, ...], int] = {}
        self._top = top
        self._first: Any | None = None
        self._own = False
        if python:
            self._own = not tracemalloc.is_tracing()
            if self._own:
                # The line alone is told: more frames would only take longer.
                tracemalloc.start(1)
            self._first = tracemalloc.take_snapshot()

    def watch(
        self,
        thing: Any,
        name: str = "",
        stale_after: int | None = None,
        release: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Holds it weakly: it is not kept alive by being watched.

        With `stale_after`, an object that still lives after so many checks is passed to `release`, once:
        a function that drops what it holds, such as `dict.clear`.
        """
        if (stale_after is None) != (function("release", release) is None):
            raise BadValue("stale_after and release belong together", "pass both, or none of them")
        steps = None if stale_after is None else whole("stale_after", stale_after, 1)
        key = id(thing)
        label = text("name", name or type(thing).__name__, "the model")
        try:
            self._watched[key] = (label, weakref.ref(thing, lambda _: self._forget(key)))
        except TypeError:
            fact = f"a {type(thing).__name__} cannot be watched: it takes no weak references"
            raise BadType(fact, "watch the object that holds it") from None
        self._stale.pop(key, None)
        if steps is not None and release is not None:
            self._stale[key] = (self._checks + steps, release)
        return thing

    def alive(self) -> list[str]:
        return [name for name, ref in list(self._watched.values()) if ref() is not None]

    def check(self) -> dict[str, Any]:
        """To be called at the same point of each step. Counts the tensors that live."""
        released = self._release_stale()
        self._checks += 1
        counts, sizes = count_tensors()
        self._sizes.update(sizes)
        self._tensors = [*self._tensors, counts][-(STEPS_OF_GROWTH + 1) :]
        return {
            "tensors": sum(counts.values()),
            "growing": self.growing(),
            "released": released,
        }

    def _release_stale(self) -> list[str]:
        """Names of objects whose memory was released, so that they are no longer watched."""
        names = []
        for key in [key for key, (due, _) in list(self._stale.items()) if self._checks >= due]:
            _, release = self._stale.pop(key)
            name, reference = self._watched.get(key, ("", None))
            thing = None if reference is None else reference()
            if thing is None:
                continue
            try:
                release(thing)
            except Exception as error:
                log.warning("plimsoll: %s could not be released: %s", name, error)
                continue
            self._watched.pop(key, None)
            names.append(name)
        return names

    def _forget(self, key: int) -> None:
        self._watched.pop(key, None)
        self._stale.pop(key, None)

    def growing(self) -> list[dict[str, Any]]:
        """Kinds of tensors that there were more of after every one of the last checks."""
        if len(self._tensors) <= STEPS_OF_GROWTH:
            return []
        found = []
        for kind in self._tensors[-1]:
            counts = [step[kind] for step in self._tensors]
            if all(later > earlier for earlier, later in zip(counts, counts[1:])):
                shape, dtype, device = kind
                found.append(
                    {
                        "shape": list(shape),
                        "dtype": dtype,
                        "device": device,
                        "count": counts[-1],
                        "bytes": (counts[-1] - counts[0]) * self._sizes[kind],
                    }
                )
        return sorted(found, key=lambda one: -one["bytes"])[: self._top]

    def python_growth(self) -> list[dict[str, Any]]:
        """Lines of Python that hold more than at the start."""
        if self._first is None:
            return []
        hidden = [
            tracemalloc.Filter(False, tracemalloc.__file__),
            tracemalloc.Filter(False, __file__),
        ]
        now = tracemalloc.take_snapshot().filter_traces(hidden)
        changes = now.compare_to(self._first.filter_traces(hidden), "lineno")
        return [
            {
                "where": f"{c.traceback[0].filename}:{c.traceback[0].lineno}",
                "bytes": c.size_diff,
                "count": c.count_diff,
            }
            for c in changes[: self._top]
            if c.size_diff > 0
        ]

    def report(self) -> dict[str, Any]:
        growing = self.growing()
        return {
            "found": bool(growing),
            "tensors": growing,
            "alive": self.alive(),
            "python": self.python_growth(),
            "source": "measured",
        }

    def close(self) -> None:
        if self._own:
            tracemalloc.stop()
            self._own, self._first = False, None

    def __enter__(self) -> LeakTracker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def track_leaks(python: bool = False, top: int = TOP) -> LeakTracker:
    """Looks for memory that grows.

        leaks = plimsoll.track_leaks()
        for batch in data:
            train(batch)
            if leaks.check()["growing"]:
                print(leaks.report())

    `python=True` traces Python's own allocations too (tracemalloc), which slows Python down.
    """
    return LeakTracker(python, top)
