"""A replay buffer in a store of buffers: chunks of rows, and last of all what says which chunks count."""

from __future__ import annotations

import json
from typing import Any

from ..buffering.store import BufferStore
from ..failure import Failure

# Rows of one item: some megabytes, so that a chunk is compressed and checked as a whole.
CHUNK_ROWS = 65_536


def write_replay(
    store: BufferStore,
    name: str,
    about: dict[str, Any],
    columns: dict[str, Any],
    own: tuple[Any, Any],
) -> None:
    """A process that is killed meanwhile leaves the one that was saved before."""
    before = _about(store, name)
    version = 1 if before is None else before["version"] + 1
    rows = len(next(iter(columns.values()))) if columns else 0
    starts = range(0, rows, CHUNK_ROWS)
    for start in starts:
        part = {key: column[start : start + CHUNK_ROWS] for key, column in columns.items()}
        store.put(_key(name, version, start), part)
    if len(own[0]):
        store.put(_key(name, version, "own"), {"rows": own[0], "observations": own[1]})
    header = {**about, "version": version, "starts": list(starts), "own": len(own[0])}
    store.put(name, json.dumps(header).encode())
    if before is not None:
        for part in (*before["starts"], "own"):
            store.delete(_key(name, before["version"], part))


def read_replay(
    store: BufferStore, name: str
) -> tuple[dict[str, Any], dict[str, Any], tuple[Any, Any]]:
    import numpy

    about = _about(store, name)
    if about is None:
        raise _gone(name)
    chunks = [_part(store, name, about["version"], start) for start in about["starts"]]
    keys = chunks[0] if chunks else ()
    columns = {key: numpy.concatenate([chunk[key] for chunk in chunks]) for key in keys}
    if not about["own"]:
        return about, columns, (numpy.array([], dtype=numpy.int64), [])
    own = _part(store, name, about["version"], "own")
    return about, columns, (own["rows"], own["observations"])


def _about(store: BufferStore, name: str) -> Any:
    found = store.get(name)
    try:
        about = json.loads(found) if isinstance(found, bytes) else None
    except ValueError:
        about = None
    return about if isinstance(about, dict) and "version" in about else None


def _part(store: BufferStore, name: str, version: int, part: Any) -> Any:
    found = store.get(_key(name, version, part))
    if found is None:
        raise _gone(name)
    return found


def _key(name: str, version: int, part: Any) -> str:
    return f"{name}/{version}/{part}"


def _gone(name: str) -> Failure:
    fact = f"the replay buffer {name} is not in the store, or a part of it was dropped or damaged"
    return Failure("replay-gone", fact, "give the store a larger limit and save it again")
