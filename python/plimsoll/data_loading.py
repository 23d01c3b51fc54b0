"""Data loaders whose workers and prefetching are measured, and advice about them."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import random
import statistics
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Callable

from .arguments import (
    BadType,
    function,
    optional_truth,
    samples,
    seconds,
    share,
    shown,
    truth,
    whole,
)
from .memory import host
from .memory.gauge import HostGauge
from .memory.load_line import LOAD_LINE

# Measures what loading takes: a few batches in this process, with a limit of time.

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
    from .memory.gauge import HostGauge

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
    """Memory that a process holds alone; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = [line.split() for line in file if line.startswith("Private_")]
        return sum(int(line[1]) * 1024 for line in lines)
    except (OSError, ValueError, IndexError):
        return 0


def _has_card() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


# How to load data: workers, pinned memory, prefetching. Decides from figures, reads no machine.

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
    """Measured figures. Times are of one batch in one process; None is not known."""

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


# `plimsoll.loader()`: a DataLoader whose settings come from measurements, and that needs less memory when
# the host runs short.

log = logging.getLogger("plimsoll")

# The least time between two looks at the host's memory.
LOOK_SECONDS = 1.0


# The order of a pass over a dataset, which can be stopped between two batches and go on later.


class Feed:
    """A batch sampler for one DataLoader after another: each batch is handed out once."""

    def __init__(self, batch_sampler: Any, is_short: Callable[[], bool]) -> None:
        self._sampler = batch_sampler
        self._is_short = is_short
        self._rest: Iterator[Any] = iter(())
        self._next: Any = None
        self.over = True

    def begin(self) -> None:
        self._rest = iter(self._sampler)
        self._advance()

    def __iter__(self) -> Iterator[Any]:
        while not self.over and not self._is_short():
            batch = self._next
            self._advance()
            yield batch

    def __len__(self) -> int:
        return len(self._sampler)

    def _advance(self) -> None:
        self._next = next(self._rest, None)
        self.over = self._next is None


class AdvisedLoader:
    """Iterates over batches like `torch.utils.data.DataLoader`; `advice` says how, and why."""

    def __init__(
        self,
        dataset: Any,
        batch_sampler: Any,
        collate: Callable[[list[Any]], Any],
        settings: LoadingAdvice,
        above: float,
        used_share: Callable[[], float] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.dataset = dataset
        self.batch_sampler = batch_sampler
        self.advice = settings
        self.backoffs: list[str] = []
        self._collate = collate
        self._workers = settings.workers
        self._above = above
        self._used_share = used_share or HostGauge().used_share
        self._options = options or {}
        # Weak: a loader in a cycle would keep its workers until the next collection.
        is_short = weakref.WeakMethod(self._is_short)
        self._feed = Feed(batch_sampler, lambda: _asked(is_short()))
        self._looked = float("-inf")
        self._inner: Any = None

    def __len__(self) -> int:
        return len(self.batch_sampler)

    @property
    def workers(self) -> int:
        """Processes that load now; fewer than advised after memory ran short."""
        return self._workers

    def __iter__(self) -> Iterator[Any]:
        self._feed.begin()
        while True:
            yield from self._loader()
            if self._feed.over:
                return
            self._back_off()

    def worker_bytes(self) -> int:
        """Memory of the host that the workers hold alone, beside this process; measured."""
        running = getattr(getattr(self._inner, "_iterator", None), "_workers", None) or ()
        return sum(private_bytes(worker.pid) for worker in running if worker.pid is not None)

    def _loader(self) -> Any:
        if self._inner is None:
            self._inner = build_loader(
                self.dataset, self._feed, self._collate, self.advice, self._workers, self._options
            )
        return self._inner

    def _is_short(self) -> bool:
        now = time.monotonic()
        if self._workers == 0 or now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        return self._used_share() > self._above

    def _back_off(self) -> None:
        before, self._workers = self._workers, self._workers // 2
        message = f"{self._workers} workers instead of {before}: the host's memory is above {self._above:.0%}"
        self.backoffs.append(message)
        log.warning("plimsoll: loader: %s", message)
        # The old workers end with it.
        self._inner = None


def _asked(is_short: Callable[[], bool] | None) -> bool:
    return is_short is not None and is_short()


def build_loader(
    dataset: Any,
    batch_sampler: Any,
    collate: Callable[[list[Any]], Any],
    settings: LoadingAdvice,
    workers: int,
    options: dict[str, Any],
) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        batch_sampler=batch_sampler,
        collate_fn=collate,
        num_workers=workers,
        pin_memory=settings.pin_memory,
        persistent_workers=settings.persistent_workers and workers > 0,
        prefetch_factor=settings.prefetch_factor if workers > 0 else None,
        **options,
    )


# Puts a loader together: measures, decides, and tries workers beside none before it uses them.

# Batches of a trial, after those that start the workers.
TRIAL_BATCHES = 8
TRIAL_START = 2
# A trial ends where a batch takes long: its time is known by then.
TRIAL_SECONDS = 10.0
# Each way is tried so often, in turns, and its best time counts: other programs only make it slower.
TRIAL_TURNS = 2
# Workers that are not faster by this share are left out: they cost memory, and a short trial is not exact.
LEAST_GAIN = 1.1
# Batches at the beginning of the dataset that a measurement and a trial may use.
FIRST = 64

NONE = LoadingAdvice(0, None, False, False, ("no workers: the dataset has no batch",))


def loader(
    dataset: Any,
    *,
    batch_size: int = 1,
    shuffle: bool = False,
    drop_last: bool = False,
    sampler: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    generator: Any = None,
    worker_init_fn: Callable[[int], Any] | None = None,
    step_seconds: float | None = None,
    workers: int | None = None,
    pin_memory: bool | None = None,
    persistent_workers: bool | None = None,
    prefetch: int | None = None,
    above: float = LOAD_LINE,
) -> AdvisedLoader:
    """A DataLoader with settings from measurements; `advice.reasons` says why.

        data = plimsoll.loader(dataset, batch_size=64, shuffle=True, step_seconds=0.08)
        for batch in data: ...

    It loads a few batches, then tries workers beside none. `step_seconds` is how long a training step
    takes; `workers` fixes their number, `pin_memory`, `persistent_workers` and `prefetch` (batches that each worker
    prepares) fix what they name. Above a share `above` of the host's memory it goes on with half of
    the workers: every sample still comes once, in the same order.
    """
    import torch
    from torch.utils.data import (
        BatchSampler,
        IterableDataset,
        RandomSampler,
        SequentialSampler,
        default_collate,
    )  # fmt: skip

    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        fact = "loader takes a dataset with __getitem__ and __len__; an iterable one cannot be shared out"
        raise BadType(fact, "use torch.utils.data.DataLoader for it")
    if generator is not None and not isinstance(generator, torch.Generator):
        fact = f"generator must be a torch.Generator, not {shown(generator)}"
        raise BadType(fact, "pass torch.Generator().manual_seed(0), or leave it out")
    if sampler is not None:
        samples("sampler", sampler)
    else:
        mixed = truth("shuffle", shuffle)
        sampler = (
            RandomSampler(dataset, generator=generator) if mixed else SequentialSampler(dataset)
        )
    batches = BatchSampler(
        sampler, whole("batch_size", batch_size, 1), truth("drop_last", drop_last)
    )
    collate = function("collate_fn", collate_fn) or default_collate
    step = None if step_seconds is None else seconds("step_seconds", step_seconds)
    fixed = None if workers is None else whole("workers", workers, 0)
    options = {"worker_init_fn": function("worker_init_fn", worker_init_fn), "generator": generator}
    share("above", above)
    asked: dict[str, Any] = {
        "pin_memory": optional_truth("pin_memory", pin_memory),
        "persistent_workers": optional_truth("persistent_workers", persistent_workers),
        "prefetch_factor": None if prefetch is None else whole("prefetch", prefetch, 1),
    }
    first = list(islice(iter(BatchSampler(SequentialSampler(dataset), batch_size, False)), FIRST))
    # The pass that counts is as it would have been without a trial.
    with random_numbers_kept():
        figures = measure_loading(dataset, first, collate, step)
        settings = NONE if figures is None else advise(figures)
        if fixed is not None:
            settings = _fixed(settings, fixed)
        elif settings.workers:
            trial_options = {**options, "generator": None}
            settings = tried(dataset, first, collate, settings, step or 0.0, trial_options)
    settings = dataclasses.replace(
        settings, **{name: value for name, value in asked.items() if value is not None}
    )
    return AdvisedLoader(dataset, batches, collate, settings, above, options=options)


def tried(
    dataset: Any,
    batches: list[Any],
    collate: Callable[[list[Any]], Any],
    settings: LoadingAdvice,
    step_seconds: float,
    options: dict[str, Any],
) -> LoadingAdvice:
    """The settings, or none of the workers where a short trial was not faster with them."""
    # Workers of a trial end with it.
    trial = dataclasses.replace(settings, persistent_workers=False)
    alone = together = math.inf
    for _ in range(TRIAL_TURNS):
        plain, shared = (
            build_loader(dataset, batches, collate, trial, workers, options)
            for workers in (0, settings.workers)
        )
        alone = min(alone, _seconds(plain, step_seconds))
        together = min(together, _seconds(shared, step_seconds))
    figures = (
        f"{1000 * together:.1f} ms a batch with them, {1000 * alone:.1f} ms without, in a trial"
    )
    if alone >= LEAST_GAIN * together:
        return dataclasses.replace(settings, reasons=(*settings.reasons, figures))
    reasons = (f"no workers: {figures}", settings.reasons[-1])
    return dataclasses.replace(
        settings, workers=0, prefetch_factor=None, persistent_workers=False, reasons=reasons
    )


def _seconds(batches: Any, step_seconds: float) -> float:
    """Of one batch and the step after it, once the workers run."""
    begin, count = time.perf_counter(), 0
    for number_of_batch, _ in enumerate(batches):
        if number_of_batch == TRIAL_START:
            begin = time.perf_counter()
        time.sleep(step_seconds)
        count = number_of_batch + 1
        if count >= TRIAL_START + TRIAL_BATCHES or time.perf_counter() - begin > TRIAL_SECONDS:
            break
    return (time.perf_counter() - begin) / max(1, count - TRIAL_START)


def _fixed(settings: LoadingAdvice, workers: int) -> LoadingAdvice:
    return dataclasses.replace(
        settings,
        workers=workers,
        prefetch_factor=2 if workers else None,
        persistent_workers=workers > 0,
        reasons=(f"{workers} workers: as was asked for", settings.reasons[-1]),
    )


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Puts the generators of Python, NumPy and PyTorch back to where they were."""
    import torch

    numpy = sys.modules.get("numpy")
    states = random.getstate(), torch.random.get_rng_state()
    of_numpy = None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        torch.random.set_rng_state(states[1])
        if numpy is not None:
            numpy.random.set_state(of_numpy)
