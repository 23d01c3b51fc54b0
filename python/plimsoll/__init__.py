"""Know whether a PyTorch job fits, get warned before memory runs out, and recover when it does.

    import plimsoll

    answer = plimsoll.estimate("llama-3-8b", batch=1, seq=2048, gpu="4090")   # without a GPU
    answer.peak.device_bytes, answer.fits("24GiB"), answer.breakdown

    plimsoll.fits("gpt2", batch=8, optimizer="adamw", card="t4")              # True or False
    plimsoll.plan("llama-3-8b", memory="24GiB").settings                      # settings that fit

    step = plimsoll.recovering(model, optimizer, lambda batch: model(**batch).loss)
    for batch in loader:
        loss = step(batch)              # a step that runs out of memory is done again in parts

    with plimsoll.explain():            # says why memory ran out, and what would help
        train()

    with plimsoll.Debugger() as debug:  # samples, forecast, leaks
        train()
    print(debug.report())

Importing this package costs next to nothing and needs no torch; each part is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For editors and type checkers; a test compares it with the table below.
    # isort: off
    from .asking.estimate import estimate as estimate
    from .asking.plan import fits as fits, plan as plan
    from .batching import batches as batches
    from .buffering.pool import pool as pool
    from .buffering.store import buffers as buffers
    from .data_loading import loader as loader
    from .debugging.debugger import Debugger as Debugger, debugger as debugger
    from .debugging.explain import explain as explain
    from .distributed.spread import spread as spread
    from .failure import Failure as Failure
    from .leaks.collection import (
        clean_up as clean_up,
        cleaning as cleaning,
        collect_on_pressure as collect_on_pressure,
        gc_pauses as gc_pauses,
        schedule_gc as schedule_gc,
        tune_gc as tune_gc,
    )
    from .leaks.tracker import track_leaks as track_leaks
    from .loading.load import load as load, unload as unload
    from .memory.out_of_memory import recognise as recognise
    from .memory.state import (
        estimate_batch_size as estimate_batch_size,
        least_loaded_device as least_loaded_device,
        memory_state as memory_state,
    )
    from .optimizing.optimize import optimize as optimize
    from .recovery.recovering import recovering as recovering
    from .replay_buffer import replay as replay
    from .saving import checkpointing as checkpointing
    from .sessions.session import session as session
    from .swapping import swap as swap
    from .trainers.one_line import (
        LightningCallback as LightningCallback,
        TrainerCallback as TrainerCallback,
        prepare as prepare,
    )

__version__ = "0.1.0"

_PLACES = {
    "Debugger": "debugging.debugger",
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
    "explain": "debugging.explain",
    "fits": "asking.plan",
    "gc_pauses": "leaks.collection",
    "least_loaded_device": "memory.state",
    "load": "loading.load",
    "loader": "data_loading",
    "memory_state": "memory.state",
    "optimize": "optimizing.optimize",
    "plan": "asking.plan",
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


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext plimsoll`: explains each out-of-memory error, and adds the magic `%plimsoll COMMAND`."""
    from .debugging.explain import extend

    extend(shell)
