"""Measures what loading takes: a few batches in this process, with a limit of time."""

from __future__ import annotations

import os
import statistics
import sys
import time
from itertools import islice
from typing import Any, Callable

from ..memory import host
from .advice import LoadingFigures

BATCHES = 6
# Enough to tell workers from none; a dataset whose first batch takes longer is known by that one.
MAX_SECONDS = 5.0


def measure_loading(
    dataset: Any,
    batch_sampler: Any,
    collate: Callable[[list[Any]], Any],
    step_seconds: float | None,
    clock: Callable[[], float] = time.perf_counter,
) -> LoadingFigures | None:
    """None for a dataset without a batch. The order of the real pass is not touched: its first indices are
    loaded once more.
    """
    times: list[float] = []
    batch: Any = None
    resident = host.resident_bytes()
    for indices in islice(iter(batch_sampler), BATCHES):
        begin = clock()
        batch = collate([dataset[index] for index in indices])
        times.append(clock() - begin)
        if sum(times) > MAX_SECONDS:
            break
    if not times:
        return None
    # The first one opens files and fills caches.
    settled = times[1:] or times
    grown = max(0, host.resident_bytes() - resident)
    return LoadingFigures(
        cores=usable_cores(),
        batch_seconds=statistics.median(settled),
        slow_batch_seconds=max(settled),
        batch_bytes=bytes_of(batch),
        step_seconds=step_seconds,
        worker_bytes=WORKER_BYTES + grown,
        free_bytes=free_bytes(),
        has_card=_has_card(),
    )


# Measured: pages that a forked worker of torch 2.11 makes its own while it serves tensors.
WORKER_BYTES = 48 * 2**20


def usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def free_bytes() -> int:
    from ..memory.gauge import HostGauge

    gauge = HostGauge()
    return max(0, gauge.capacity_bytes() - gauge.used_bytes())


def bytes_of(batch: Any) -> int:
    """Of the tensors and arrays in a batch, however nested."""
    if isinstance(batch, dict):
        return sum(bytes_of(one) for one in batch.values())
    if isinstance(batch, (list, tuple)):
        return sum(bytes_of(one) for one in batch)
    if isinstance(batch, (bytes, str)):
        return len(batch)
    return int(getattr(batch, "nbytes", 64))


def private_bytes(pid: int) -> int:
    """What a process holds alone; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = [line.split() for line in file if line.startswith("Private_")]
        return sum(int(line[1]) * 1024 for line in lines)
    except (OSError, ValueError, IndexError):
        return 0


def _has_card() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()
