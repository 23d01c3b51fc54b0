"""Data loaders yield their first batches and their last, so that an epoch passes in seconds.

A loader that trains goes on until each optimizer has stepped a few times; one that is only read, as in
an evaluation, gives fewer. The length that a loader tells stays as it is. Worker processes are not
started, and pages not pinned: neither takes memory of the GPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch.utils import data
from torch.utils.data.dataloader import _DatasetKind

from ..standins.patches import Patches
from .watch import Watch

# In training: the optimizer's state is there after the first step; the third is as all others. What the
# allocator holds may settle later, so that more are run where they are cheap: in so many ops altogether.
_STEPS = 3
_SETTLED_STEPS = 6
_CHEAP_OPS = 12_000
# Where nothing is trained, the second batch meets what the first left; likewise.
_READ = 2
_SETTLED_READ = 3
_CHEAP_READ_OPS = 3_000
# Batches of different shapes leave gaps that the next one may not fit into: they are run for so many
# ops in training, and for so many where they are read.
_RAGGED_OPS = 25_000
_RAGGED_READ_OPS = 5_000
RAGGED = (
    "batches differ in shape, so that what the allocator holds depends on their order; "
    "more of it than of usual programs is a guess"
)
# An optimizer that steps once in many batches is waited for so long.
_MAX_BATCHES = 64
# Looking for the last batch of a sampler of the program's own.
_MAX_INDICES = 200_000


def install(patches: Patches, watch: Watch) -> None:
    passes: dict = {}

    def __iter__(self: Any) -> Iterator[Any]:
        passes[id(self)] = passes.get(id(self), 0) + 1
        return Passage(self, watch, passes[id(self)])

    patches.set(data.DataLoader, "__iter__", __iter__)


class Passage:
    """One time through a loader."""

    def __init__(self, loader: Any, watch: Watch, number: int):
        self._loader = loader
        self._watch = watch
        self._number = number
        # A loader draws a seed for its workers before it draws an order.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._indices = iter(loader._index_sampler)
        self._fetcher = _DatasetKind.create_fetcher(
            loader._dataset_kind,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )
        self._steps = dict(watch.steps_of)
        self._backwards = watch.backwards
        self._calls = watch.calls
        self._ops = watch.observer.ops
        self._given = 0
        self._recent: Any = None
        self._shapes: set[tuple] = set()
        self._over = False

    def __iter__(self) -> Passage:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        index = self._last() if self._enough() else next(self._indices)
        self._recent = index
        self._given += 1
        batch = self._fetcher.fetch(index)
        if not self._over:
            self._shapes.add(tuple(_shapes(batch)))
        if self._is_ragged():
            self._watch.observer.ragged = True
            self._watch.observer.notes.add(RAGGED)
        # The second batch without a backward pass: this loader is read, not trained on.
        reads = self._given > 1 and self._watch.backwards == self._backwards
        self._watch.batch_given(reads)
        return batch

    def _enough(self) -> bool:
        watch = self._watch
        if self._given >= _MAX_BATCHES:
            return True
        if watch.short_epochs:
            return False
        if watch.calls == self._calls:
            # Collected for one step, as with gradient accumulation.
            return False
        reads = watch.backwards == self._backwards
        if self._number < 3 and self._is_ragged():
            limit = _RAGGED_READ_OPS if reads else _RAGGED_OPS
            return watch.observer.ops - self._ops > limit
        ops = watch.observer.ops - self._ops
        if reads:
            settled = _SETTLED_READ if ops < _CHEAP_READ_OPS else _READ
            return self._given >= (settled if self._number < 3 else 1)
        steps = [watch.steps_of[key] - self._steps.get(key, 0) for key in watch.steps_of]
        # Loops without an optimizer of PyTorch's count by their backward passes.
        steps = steps or [watch.backwards - self._backwards]
        settled = _SETTLED_STEPS if ops < _CHEAP_OPS else _STEPS
        wanted = settled if self._number < 3 else 1
        return max(steps) >= wanted and min(steps) >= min(wanted, 2)

    def _is_ragged(self) -> bool:
        return len(self._shapes) > 2 or len(self._watch.observer.packed) > 2

    def _last(self) -> Any:
        self._over = True
        loader = self._loader
        if loader._dataset_kind == _DatasetKind.Iterable:
            raise StopIteration
        sampler = loader._index_sampler
        if type(sampler) is data.BatchSampler:
            left = len(sampler.sampler) % sampler.batch_size
            if sampler.drop_last or left == 0 or not isinstance(self._recent, list):
                raise StopIteration
            return self._recent[:left]
        rest = deque(islice(self._indices, _MAX_INDICES), maxlen=1)
        if not rest:
            raise StopIteration
        return rest[0]


def _shapes(batch: Any) -> Iterator[tuple]:
    """Of all tensors in a batch, whatever holds them."""
    if isinstance(batch, torch.Tensor):
        yield tuple(batch.shape)
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _shapes(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _shapes(value)
    elif hasattr(batch, "to_dict"):
        # A batch of graphs.
        yield from _shapes(batch.to_dict())
