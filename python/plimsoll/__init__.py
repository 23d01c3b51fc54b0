"""The Python side of Plimsoll: runs inside PyTorch programs, reports memory, and recovers from out-of-memory.

Importing this package costs next to nothing and needs no torch; each part is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "Failure": "failure",
    "LightningCallback": "trainers.one_line",
    "TrainerCallback": "trainers.one_line",
    "batches": "batching",
    "buffers": "buffering.store",
    "checkpointing": "saving",
    "clean_up": "leaks.collection",
    "cleaning": "leaks.collection",
    "collect_on_pressure": "leaks.collection",
    "debugger": "debugging.debugger",
    "estimate": "asking.estimate",
    "estimate_batch_size": "memory.state",
    "gc_pauses": "leaks.collection",
    "least_loaded_device": "memory.state",
    "load": "loading.load",
    "loader": "data_loading",
    "memory_state": "memory.state",
    "optimize": "optimizing.optimize",
    "pool": "buffering.pool",
    "prepare": "trainers.one_line",
    "recognise": "memory.out_of_memory",
    "recovering": "recovery.recovering",
    "replay": "replay_buffer",
    "schedule_gc": "leaks.collection",
    "session": "sessions.session",
    "spread": "distributed.spread",
    "swap": "swapping",
    "track_leaks": "leaks.tracker",
    "tune_gc": "leaks.collection",
    "unload": "loading.load",
}

# Parts with several names of their own.
_MODULES = ("ray",)

__all__ = ["__version__", *sorted([*_PLACES, *_MODULES])]  # noqa: PLE0604  the names are keys of a dict above


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'plimsoll' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{place}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_MODULES})
