"""What was kept between the start and the end: tensors, objects, containers that grew."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .tracker import CONTAINERS, LARGE, Census, alive, holder_of, is_library

# Fewer tensors are the batch, the loss and other variables of a loop.
LEAST_TENSORS = 10
LEAST_OF_ALL_SHAPES = 30
LEAST_OBJECTS = LARGE
# What the import of a module brings with it: functions, tuples, dictionaries.
OBJECTS_OF_A_MODULE = 100
# Looks in which it grew, before growth is taken for sure.
SURE_AFTER = 3
TOP = 10


def kept(
    first: Census, last: Census, between: Sequence[Census] = (), top: int = TOP
) -> dict[str, Any]:
    """What there is more of at the end than at the start. `between` tells growth from one large load."""
    tensors = _tensors(first, last, between)
    containers = _containers(first, last)
    objects = _objects(first, last, between)
    found = bool(tensors or containers or objects)
    return {
        "found": found,
        "confidence": _confidence(tensors + objects) if found else 0.0,
        "tensors": tensors[:top],
        "objects": objects[:top],
        "containers": containers[:top],
    }


def _tensors(first: Census, last: Census, between: Sequence[Census]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind, count in last.tensors.items():
        more = count - first.tensors[kind]
        if more <= 0 or came_at_once([one.tensors[kind] for one in (first, *between, last)]):
            continue
        shape, dtype, device = kind
        found.append(
            {
                "shape": list(shape),
                "dtype": dtype,
                "device": device,
                "count": more,
                "bytes": more * last.sizes.get(kind, 0),
                "withGraph": last.with_graph[kind],
                "looks": _rises([one.tensors[kind] for one in (first, *between, last)]),
            }
        )
    many = [one for one in found if one["count"] >= LEAST_TENSORS]
    few = [one for one in found if one["count"] < LEAST_TENSORS]
    # A loop keeps a few of its own; batches of ever other shapes that are kept are many of few.
    if sum(one["count"] for one in few) >= LEAST_OF_ALL_SHAPES:
        many += few
    return sorted(many, key=lambda one: (-one["bytes"], -one["count"]))


def _objects(first: Census, last: Census, between: Sequence[Census]) -> list[dict[str, Any]]:
    allowed = OBJECTS_OF_A_MODULE * len(last.modules - first.modules)
    found = []
    for name, count in last.objects.items():
        more = count - first.objects[name]
        counts = [one.objects[name] for one in (first, *between, last)]
        # Objects of Python and of libraries come with every import; a program's own do not.
        least = LEAST_OBJECTS + (allowed if is_library(sys.modules.get(name[0])) else 0)
        if more >= least and not came_at_once(counts):
            found.append({"type": ".".join(name), "count": more, "looks": _rises(counts)})
    return sorted(found, key=lambda one: -one["count"])


def _containers(first: Census, last: Census) -> list[dict[str, Any]]:
    found = []
    for key, (kind, length) in last.containers.items():
        before = first.containers.get(key, (kind, 0))
        more = length - (before[1] if before[0] == kind else 0)
        if more >= LARGE:
            found.append({"type": kind, "length": length, "count": more, "_id": key})
    if not found:
        return []
    wanted = {one["_id"]: one for one in found}
    fresh = [sys.modules[name] for name in last.modules - first.modules if name in sys.modules]
    of_imports = {id(value) for module in fresh for value in list(vars(module).values())}
    everything = alive(CONTAINERS)
    lives = [
        one
        for one in everything
        if id(one) in wanted and id(one) not in of_imports and len(one) >= LARGE
    ]
    del everything
    rows = []
    for live in lives:
        where = holder_of(live, {id(lives)})
        # A table of Python's own or of a library is not the program's.
        if where is not None:
            grown = wanted[id(live)]
            rows.append(
                {
                    "type": grown["type"],
                    "of": type(next(iter(live))).__name__,
                    "length": grown["length"],
                    "count": grown["count"],
                    "where": where,
                }
            )
    return sorted(rows, key=lambda one: -one["count"])


def came_at_once(counts: Sequence[int]) -> bool:
    """Whether all of it came between two looks and nothing after: loaded, not leaked."""
    rises = [later - earlier for earlier, later in zip(counts, counts[1:])]
    total = counts[-1] - counts[0]
    return len(rises) > SURE_AFTER and total > 0 and max(rises) >= total and rises[-1] <= 0


def _rises(counts: Sequence[int]) -> int:
    return sum(later > earlier for earlier, later in zip(counts, counts[1:]))


def _confidence(found: Sequence[dict[str, Any]]) -> float:
    """Growth in one look alone may be a load; in several it is growth."""
    looks = max((one["looks"] for one in found), default=1)
    return round(min(0.95, 0.5 + 0.15 * (looks - 1)), 2)
