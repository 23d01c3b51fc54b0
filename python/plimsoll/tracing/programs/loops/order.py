"""The order of batches: whether it is that of a real run, and what must not disturb it."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils import data
from torch.utils.data.dataloader import _DatasetKind

from ....living import Living
from .workers import Workers

# Workers that go on with the next epoch of their loader.
_WORKING: Living[Workers | None] = Living()
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


class Epoch:
    """The indices of an epoch, and what is fetched for them. Begins as PyTorch does: some samplers draw their order
    at once, others later.

    A seed for the workers is drawn in between, and a loader with workers asks for the order twice. Such a loader asks
    for some indices ahead, for its workers to begin with.
    """

    def __init__(self, loader: Any, observer: Any = None) -> None:
        """observer: the one of the trace; where it is given, workers may read ahead."""
        self._waiting: deque[Any] = deque()
        self._workers: Workers | None = None
        self._fetcher: Any = None
        works = loader.num_workers > 0
        goes_on = works and loader.persistent_workers
        if goes_on and loader in _WORKING:
            self._workers = _WORKING.of(loader, None)
            self._indices = iter(loader._index_sampler)
        else:
            self._indices = iter(loader._index_sampler)
            seed = _base_seed(loader.generator)
            if works:
                self._indices = iter(loader._index_sampler)
                self._workers = Workers(loader, seed, observer)
            if goes_on:
                _WORKING.add(loader, self._workers)
        if self._workers is None:
            self._fetcher = _DatasetKind.create_fetcher(
                loader._dataset_kind,
                loader.dataset,
                loader._auto_collation,
                loader.collate_fn,
                loader.drop_last,
            )
        else:
            self._workers.begin_epoch()
            self._waiting.extend(islice(self._indices, loader.num_workers * loader.prefetch_factor))
            self._indices = _ahead(self._indices, self._waiting)

        self.alike = 1 if self._workers is None else self._workers.alike

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        index = next(self._indices)
        if self._workers is not None:
            self._workers.take_turn()
        return index

    def fetch(self, index: Any) -> Any:
        if self._workers is None:
            return self._fetcher.fetch(index)
        return self._workers.fetch(index, self._waiting[0] if self._waiting else None)


def _base_seed(generator: Any) -> int:
    seed = torch.empty((), dtype=torch.int64).random_(generator=generator)
    return int(seed)


def _ahead(indices: Iterator[Any], waiting: deque[Any]) -> Iterator[Any]:
    """The same, but as many as wait are always asked for before they are given."""
    while waiting:
        index = waiting.popleft()
        waiting.extend(islice(indices, 1))
        yield index
