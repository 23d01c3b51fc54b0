"""The order of batches: whether it is that of a real run, and what must not disturb it."""

from __future__ import annotations

import copy
import random
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch.utils import data
from torch.utils.data import _utils
from torch.utils.data.dataloader import _DatasetKind

from ...weak_table import WeakTable
from .reading_ahead import ReadingAhead

# What the worker processes of a loader would fetch, fetched in this process.
#
# Each worker has a seed of its own: PyTorch draws a base seed and adds the number of the worker. So what a data set or
# a collate function draws at random is the same in every run with the same seed, and moves no generator of the program.
# Here the workers share one process, and each keeps its generators, its copy of the data set, and its place in it.


class Workers:
    """The workers of one loader, from their start to their end."""

    def __init__(self, loader: Any, base_seed: int, observer: Any = None) -> None:
        self._loader = loader
        self._base_seed = base_seed
        self._workers: dict[int, _Worker] = {}
        self._ended: set[int] = set()
        self._last = -1
        self._ahead: ReadingAhead | None = None
        if observer is not None and _can_be_read_ahead(loader):
            self._ahead = ReadingAhead(loader.dataset, observer)

    @property
    def alike(self) -> int:
        """How many batches in a row are drawn alike: workers that copy a generator all begin where it is."""
        return self._loader.num_workers if _copies_generators(self._loader) else 1

    def begin_epoch(self) -> None:
        """Those that go on with another epoch keep their generators, and begin with the first of them."""
        self._ended.clear()
        self._last = -1
        for worker in self._workers.values():
            worker.fetcher = None

    def take_turn(self) -> None:
        """For the next index: each goes to the next worker that has not come to the end of its stream."""
        count = self._loader.num_workers
        following = ((self._last + 1 + ahead) % count for ahead in range(count))
        self._last = next((one for one in following if one not in self._ended), self._last)

    def fetch(self, index: Any, following: Any = None) -> Any:
        """By the worker whose turn it is. A stream ends with the last of its workers.

        following: the index that comes next, where there is one.
        """
        if self._ahead is not None:
            return self._fetch_ahead(self._ahead, index, following)
        while True:
            number = max(0, self._last)
            try:
                return self._worker(number).fetch(index)
            except StopIteration:
                self._ended.add(number)
                if len(self._ended) >= self._loader.num_workers:
                    raise
                self.take_turn()

    def _fetch_ahead(self, ahead: ReadingAhead, index: Any, following: Any) -> Any:
        number = max(0, self._last)
        found = ahead.take((number, index))
        if found is None:
            batch, _ = ahead.read((number, index), self._read)
        else:
            batch, self._worker(number).states = found
        if following is not None:
            ahead.ask(((number + 1) % self._loader.num_workers, following), self._read)
        return batch

    def _read(self, question: tuple[int, Any]) -> tuple[Any, tuple]:
        number, index = question
        worker = self._worker(number)
        batch = worker.fetch(index)
        return batch, worker.states

    def _worker(self, number: int) -> _Worker:
        if number not in self._workers:
            self._workers[number] = _Worker(self._loader, self._base_seed, number)
        return self._workers[number]


class _Worker:
    def __init__(self, loader: Any, base_seed: int, number: int) -> None:
        self._loader = loader
        is_stream = loader._dataset_kind == _DatasetKind.Iterable
        self._dataset = _own(loader.dataset, is_stream or loader.worker_init_fn is not None)
        self._collate = _own(loader.collate_fn, False)
        self._info = _utils.worker.WorkerInfo(
            id=number,
            num_workers=loader.num_workers,
            seed=base_seed + number,
            dataset=self._dataset,
        )
        self.fetcher: Any = None
        with _generators():
            torch.default_generator.manual_seed(base_seed + number)
            random.seed(base_seed + number)
            if (numpy := sys.modules.get("numpy")) is not None:
                numpy.random.seed(_utils.worker._generate_state(base_seed, number))
            with self._informed():
                _initialise(loader.worker_init_fn, number)
            self.states = _states()

    def fetch(self, index: Any) -> Any:
        with _generators():
            _set(self.states)
            try:
                with self._informed():
                    return self._fetcher().fetch(index)
            finally:
                self.states = _states()

    def _fetcher(self) -> Any:
        loader = self._loader
        if self.fetcher is None:
            self.fetcher = _DatasetKind.create_fetcher(
                loader._dataset_kind,
                self._dataset,
                loader._auto_collation,
                self._collate,
                loader.drop_last,
            )
        return self.fetcher

    @contextmanager
    def _informed(self) -> Iterator[None]:
        """What runs inside is told by `get_worker_info` which worker it is."""
        before = _utils.worker._worker_info
        _utils.worker._worker_info = self._info
        try:
            yield
        finally:
            _utils.worker._worker_info = before


def _can_be_read_ahead(loader: Any) -> bool:
    """Whether what is read follows from the place in the data set and from the states of the generators."""
    if loader._dataset_kind == _DatasetKind.Iterable:
        return False
    return not _copies_generators(loader)


def _copies_generators(loader: Any) -> bool:
    return any(_own(one, False) is not one for one in (loader.dataset, loader.collate_fn))


def _initialise(function: Any, number: int) -> None:
    if function is None:
        return
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        function(number)
    except Exception:
        # It may count on a process of its own. What it would have set up shows in what is fetched.
        return
    finally:
        if signal.getsignal(signal.SIGINT) is not interrupted:
            # Workers often ignore Ctrl-C; here that would be the program.
            signal.signal(signal.SIGINT, interrupted)


def _own(given: Any, differs: bool) -> Any:
    """A worker's own: what one sets in it, and draws from generators that it holds, is not seen by the others.

    differs: whether workers may have different ones, apart from generators. Otherwise they share one, since data that
    it reads once would be read, and held, once for each.
    """
    if not hasattr(given, "__dict__") or isinstance(given, (type, torch.Tensor, torch.nn.Module)):
        return given
    held = {name: value for name, value in vars(given).items() if _is_generator(value)}
    if not held and not differs:
        return given
    try:
        own = copy.copy(given)
        vars(own).update(copy.deepcopy(held))
    except Exception:
        # Not all can be copied.
        return given
    return own


def _is_generator(value: Any) -> bool:
    kinds: tuple[type, ...] = (random.Random, torch.Generator)
    if (numpy := sys.modules.get("numpy")) is not None:
        kinds += (numpy.random.Generator, numpy.random.RandomState)
    return isinstance(value, kinds)


@contextmanager
def _generators() -> Iterator[None]:
    """What is drawn inside does not move the generators of the program."""
    states = _states()
    try:
        yield
    finally:
        _set(states)


def _states() -> tuple:
    numpy = sys.modules.get("numpy")
    numbers = None if numpy is None else numpy.random.get_state()
    return torch.get_rng_state(), random.getstate(), numbers


def _set(states: tuple) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if states[2] is not None:
        sys.modules["numpy"].random.set_state(states[2])


# Workers that go on with the next epoch of their loader.
_WORKING: WeakTable[Workers | None] = WeakTable()
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
    if type(batches) in (list, tuple) and _nothing_is_drawn():
        return True
    sampler = batches.sampler if type(batches) is data.BatchSampler else None
    if type(sampler) is data.SequentialSampler:
        return True
    if type(sampler) is data.RandomSampler and _is_seeded(sampler.generator):
        return True
    return follows_draws and _is_seeded(torch.default_generator)


def _nothing_is_drawn() -> bool:
    """Whether the program has drawn no number of Python's or NumPy's, as for an order of its own."""
    if random.getstate() != random.Random(_CHOSEN + 1).getstate():
        return False
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return True
    unused, now = numpy.random.RandomState(1).get_state(), numpy.random.get_state()
    return unused[2:] == now[2:] and bool((unused[1] == now[1]).all())


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
