"""An out-of-memory error that the program did not catch: writes a snapshot and tells the supervisor."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from typing import Any, Callable

from ..memory.gauge import HostGauge, gauge_of
from ..memory.out_of_memory import recognise
from . import connection, phase
from .messages import oom

log = logging.getLogger("plimsoll")

# Kept by the allocator when PLIMSOLL_SNAPSHOT=1: some tens of megabytes of host memory.
HISTORY_ENTRIES = 100_000
TENSORS_LISTED = 20

# Called with an out-of-memory error that ends the program, once it was printed. They do not raise.
after_printed: list[Callable[[BaseException], None]] = []


def install() -> None:
    for owner, name in ((sys, "excepthook"), (threading, "excepthook")):
        _wrap(owner, name)
    if os.environ.get("PLIMSOLL_SNAPSHOT") == "1":
        _record_history()


def _wrap(owner: Any, name: str) -> None:
    real = getattr(owner, name)

    def hook(*arguments: Any) -> None:
        found = None
        error = arguments[1] if len(arguments) == 3 else getattr(arguments[0], "exc_value", None)
        try:
            # The frames of the error still hold what they held: memory is as full as when it ran out.
            shares = gauge_of().used_share, HostGauge().used_share
            found = recognise(error, *shares) if isinstance(error, BaseException) else None
            if isinstance(error, BaseException) and found is not None:
                _report(error, found)
        except Exception as trouble:
            log.debug("plimsoll: no snapshot: %s", trouble)
        real(*arguments)
        # A thread that fails does not end the program.
        if found is not None and owner is sys and isinstance(error, BaseException):
            for act in after_printed:
                act(error)

    setattr(owner, name, hook)


def _report(error: BaseException, found: Any) -> None:
    where = phase.current()
    snapshot = write_snapshot(os.environ.get("PLIMSOLL_RUN_DIR"), error, found, where)
    bridge = connection.current()
    if bridge is not None:
        peak = gauge_of().figures()["peakAllocatedBytes"]
        ident = f"{os.getpid()}-uncaught"
        message = oom(ident, bridge.rank, found, where, peak=peak, snapshot=snapshot)
        bridge.send({**message, "uncaught": True})


def write_snapshot(folder: str | None, error: BaseException, found: Any, where: str) -> str | None:
    """PyTorch's own snapshot on a GPU; on the host, what lived and who asked. The file's path, or None."""
    if not folder:
        return None
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, f"out-of-memory-{os.getpid()}")
    facts = {
        "at": time.time(),
        "kind": found.kind,
        "message": found.message,
        "phase": where,
        "figures": gauge_of().figures(),
        "stack": [
            f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)
        ][-40:],
        "largestTensors": largest_tensors(),
    }
    with open(f"{base}.json", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return f"{base}.json"
    try:
        torch.cuda.memory._dump_snapshot(f"{base}.pickle")
    except Exception as trouble:
        log.debug("plimsoll: the allocator gave no snapshot: %s", trouble)
        return f"{base}.json"
    return f"{base}.pickle"


def largest_tensors() -> list[dict[str, Any]]:
    """The largest tensors that are alive, each storage once."""
    import gc

    torch = sys.modules.get("torch")
    if torch is None:
        return []
    found = {}
    for one in gc.get_objects():
        try:
            if issubclass(type(one), torch.Tensor):
                storage = one.untyped_storage()
                found[storage.data_ptr()] = {
                    "bytes": storage.nbytes(),
                    "shape": list(one.shape),
                    "dtype": str(one.dtype).replace("torch.", ""),
                    "device": str(one.device),
                    "gradient": bool(one.requires_grad),
                }
        except Exception:
            # A weak proxy or a half-made tensor; it tells nothing.
            continue
    return sorted(found.values(), key=lambda tensor: -tensor["bytes"])[:TENSORS_LISTED]


def _record_history() -> None:
    torch = sys.modules["torch"]

    def begin() -> None:
        torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES, stacks="python")

    if hasattr(torch.cuda, "_lazy_call"):
        torch.cuda._lazy_call(begin)
