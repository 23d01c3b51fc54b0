"""Puts a loader together: measures, decides, and tries workers beside none before it uses them."""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Callable

from ..arguments import (
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
from ..memory.load_line import LOAD_LINE
from .advice import LoadingAdvice, advise
from .loader import AdvisedLoader, build_loader
from .measure import measure_loading

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
