"""The order of batches: whether it is that of a real run, and what must not disturb it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import data

from ....living import Living

# Loaders whose workers were begun, and go on with the next epoch.
_WORKING: Living[None] = Living()
# People choose seeds below this; one that PyTorch draws is nearly always above.
_CHOSEN = 1 << 32


def draw_the_same_again() -> None:
    """A program without a seed draws another order in each run; of its traces, all draw the same."""
    torch.default_generator.manual_seed(_CHOSEN + 1)
    random.seed(_CHOSEN + 1)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(1)


def is_known(loader: Any, follows_draws: bool) -> bool:
    """Whether a real run draws the same order; follows_draws: up to here the same numbers were drawn."""
    batches = loader._index_sampler
    sampler = batches.sampler if type(batches) is data.BatchSampler else None
    if type(sampler) is data.SequentialSampler:
        return True
    if type(sampler) is data.RandomSampler and _is_seeded(sampler.generator):
        return True
    return follows_draws and _is_seeded(torch.default_generator)


def _is_seeded(generator: Any) -> bool:
    return generator is not None and generator.initial_seed() < _CHOSEN


def is_seeded() -> bool:
    """Whether the program has set a seed."""
    return _is_seeded(torch.default_generator)


def begin(loader: Any) -> Iterator[Any]:
    """The indices of an epoch. Begins as PyTorch does: some samplers draw their order at once, others later.

    A seed for the workers is drawn in between, and a loader with workers asks for the order twice.
    """
    works = loader.num_workers > 0
    goes_on = works and loader.persistent_workers
    if goes_on and loader in _WORKING:
        return iter(loader._index_sampler)
    indices = iter(loader._index_sampler)
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
    if goes_on:
        _WORKING.add(loader, None)
    return iter(loader._index_sampler) if works else indices


@contextmanager
def as_a_worker() -> Iterator[None]:
    """What workers of a loader draw does not move the generators of the program."""
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate()
    numbers = None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(numbers)
