"""How to load data: workers, pinned memory, prefetching. Decides from figures, reads no machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Loading that takes less of a step than this is not worth a process.
LEAST_SHARE = 0.05
# Where the time of a step is not known: loading faster than this needs no help.
QUICK_SECONDS = 0.002
# Of the memory that is free, workers may take this part.
MEMORY_SHARE = 0.5
# A worker that waits for no other batch holds so many.
PREFETCH = 2
MORE_PREFETCH = 4
# The slowest batches take so many times as long as the middle one: a longer queue evens them out.
UNEVEN = 2.0


@dataclass(frozen=True)
class LoadingFigures:
    """What was measured. Times are of one batch in one process; None is not known."""

    cores: int
    batch_seconds: float
    slow_batch_seconds: float
    batch_bytes: int
    step_seconds: float | None
    worker_bytes: int
    free_bytes: int
    has_card: bool


@dataclass(frozen=True)
class LoadingAdvice:
    workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    reasons: tuple[str, ...]


def advise(figures: LoadingFigures) -> LoadingAdvice:
    wanted, why = _wanted_workers(figures)
    uneven = figures.slow_batch_seconds > UNEVEN * figures.batch_seconds
    prefetch = MORE_PREFETCH if uneven else PREFETCH
    each = figures.worker_bytes + prefetch * figures.batch_bytes
    affordable = int(MEMORY_SHARE * figures.free_bytes / max(1, each))
    workers = min(wanted, affordable)
    reasons = [why]
    if workers < wanted:
        mib = each / 2**20
        reasons.append(f"{workers} instead of {wanted}: each takes about {mib:.0f} MiB of the host")
    if workers:
        queue = "times of batches differ much" if uneven else "times of batches are even"
        reasons.append(f"each worker prepares {prefetch} batches ahead: {queue}")
        reasons.append("workers stay from one epoch to the next: starting them takes time")
    pinned = (
        "copies to the card run beside it" if figures.has_card else "there is no CUDA card here"
    )
    reasons.append(f"pinned memory {'on' if figures.has_card else 'off'}: {pinned}")
    return LoadingAdvice(
        workers, prefetch if workers else None, figures.has_card, workers > 0, tuple(reasons)
    )


def _wanted_workers(figures: LoadingFigures) -> tuple[int, str]:
    takes = f"a batch takes {1000 * figures.batch_seconds:.1f} ms to load"
    if figures.cores < 2:
        return 0, "no workers: there is one core, which the training needs"
    most = figures.cores - 1
    if figures.step_seconds is None:
        if figures.batch_seconds < QUICK_SECONDS:
            return 0, f"no workers: {takes}"
        return (
            most,
            f"{most} workers: {takes}, and the time of a step is not known; {figures.cores} cores",
        )
    step = f"a step {1000 * figures.step_seconds:.1f} ms"
    if figures.batch_seconds < LEAST_SHARE * figures.step_seconds:
        return 0, f"no workers: {takes}, {step}"
    needed = max(1, math.ceil(figures.batch_seconds / max(1e-6, figures.step_seconds)))
    workers = min(needed, most)
    short = (
        f"; {needed} would keep up, and there are {figures.cores} cores" if needed > most else ""
    )
    return workers, f"{workers} workers: {takes}, {step}{short}"
