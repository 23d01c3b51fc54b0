"""Data loaders yield their first batches and their last, so that an epoch passes in seconds.

A loader that trains goes on until each optimizer has stepped a few times; one that is only read, as in
an evaluation, gives fewer. The length that a loader tells stays as it is. Worker processes are not
started, and pages not pinned: neither takes memory of the GPU.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from opcode import opname
from types import CodeType, FrameType
from typing import Any
from weakref import ref

from torch.utils import data
from torch.utils.data.dataloader import _DatasetKind

from ...standins.patches import Patches
from ..watch import Watch
from . import order, ragged
from .ragged import Settling
from .reading_ahead import seconds
from .rewritten import is_the_programs

# Batches that leave something behind: outputs that are collected for the end of an epoch, graphs that losses hold.
#
# An epoch that is cut short would collect too little. It is run to its end where that is cheap; else the interval
# reaches up by what the batches that were left out would have added.

# Ops that may be spent on such epochs, by all loaders of a program.
_OPS = 60_000
# Less than this in all is not worth it: numbers that are kept for a report.
_LEAST_BYTES = 2 * 2**20
# What was collected is joined at the end, and then there twice.
_COPIES = 2

_NOTE = (
    "Each batch of a loader holds on to {:.1f} MiB; after {:,} of them {:,} were left out, "
    "so that the interval reaches up by what they would hold."
)


class Allowance:
    """Ops that all passages together may take."""

    def __init__(self, ops: int) -> None:
        self._ops: float = ops

    def take(self, ops: float) -> bool:
        if ops > self._ops:
            return False
        self._ops -= ops
        return True


class Growing:
    """What a program's loaders have in common."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._ops = Allowance(_OPS)
        # By data set: what a batch left behind when the loader was last gone through.
        self._known: dict[Any, int] = {}

    def left_out(self, source: Any, held: list[int], left: int | None) -> None:
        """The batches that are left are not run, by a trainer that ends its epochs early."""
        self.runs_rest(source, held, left, ops=float("inf"))

    def runs_rest(self, source: Any, held: list[int], left: int | None, ops: float) -> bool:
        """Whether all batches are run that are left, for so many ops; held: live bytes before each batch so far."""
        grown = growth_of(held) or self._known.get(source, 0)
        if not left or left <= 0 or grown * left < _LEAST_BYTES:
            return False
        is_new = source not in self._known
        self._known[source] = grown
        if self._ops.take(ops):
            return True
        if is_new:
            self._watch.more_bytes += _COPIES * grown * left
            self._watch.observer.notes.add(_NOTE.format(grown / 2**20, len(held), left))
        return False


def growth_of(held: list[int]) -> int:
    """What each of the last two batches left behind.

    What one batch holds while the next comes, its inputs and outputs, is there after the first.
    """
    if len(held) < 3:
        return 0
    return max(0, min(held[-1] - held[-2], held[-2] - held[-3]))


# Batches of a data set that is slow to read, and all of one shape: the last one is given again.
#
# What they hold is not known on the pretended GPU, and their order decides nothing.

# Seconds of the processor that reading the data sets of one kind may take until then.
_SECONDS = 3.0
# So many of a length have to be alike.
_ALIKE = 2


class Repeated:
    def __init__(self, seconds: float = _SECONDS) -> None:
        self._limit = seconds
        # By kind of data set.
        self._spent: dict[Any, float] = {}
        # By data set and number of samples: the shapes of the batches, in their order.
        self._shapes: dict[Any, list[tuple]] = {}
        self._kept: dict[Any, Any] = {}
        # By kind, number of samples, and the shapes of a single one: what another data set gave.
        self._of_kind: dict[Any, Any] = {}

    def fetch(self, source: Any, index: Any, fetch: Callable[[Any], Any], kind: Any = None) -> Any:
        """kind: the same for data sets that a program creates again in each epoch."""
        if not isinstance(index, list):
            return fetch(index)
        kind = source if kind is None else kind
        key = (source, len(index))
        if key not in self._kept and self._others(kind, len(index)):
            # One sample says whether it is like them.
            single = (kind, len(index), ragged.shapes(fetch(index[:1])))
            if single in self._of_kind:
                self._kept[key] = self._of_kind[single]
        if key in self._kept:
            return copy.deepcopy(self._kept[key])
        started = seconds()
        batch = fetch(index)
        spent = self._spent.get(kind, 0.0) + seconds() - started
        self._spent[kind] = spent
        shapes = self._shapes.setdefault(key, [])
        shapes.append(ragged.shapes(batch))
        if spent >= self._limit and len(shapes) >= _ALIKE and len(set(shapes)) == 1:
            # The program may write into the one that it is given.
            self._kept[key] = copy.deepcopy(batch)
            single = (kind, len(index), ragged.shapes(fetch(index[:1])))
            self._of_kind[single] = self._kept[key]
        return batch

    def _others(self, kind: Any, samples: int) -> bool:
        return any(of == kind and number == samples for of, number, _ in self._of_kind)


# In training: the optimizer's state is there after the first step; the third is as all others. What the
# allocator holds may settle later, so that more are run where they are cheap: in so many ops altogether.
_STEPS = 3
_SETTLED_STEPS = 6
_CHEAP_OPS = 12_000
# Where nothing is trained, the second batch meets what the first left; likewise.
_READ = 2
_SETTLED_READ = 3
_CHEAP_READ_OPS = 3_000
# Programs compare all that an evaluation gave with their labels, so that short ones are run to their end:
# in so many ops altogether.
_WHOLE_READ_OPS = 12_000
# An optimizer that steps once in many batches is waited for so long.
_MAX_BATCHES = 64
# Of a stream without an end, so many are passed over for each that is run.
_PASSED_OF_STREAM = 2
# Looking for the last batch of a sampler of the program's own.
_MAX_INDICES = 200_000


# Whether a program asks a loader for its next batch with `next`, and counts on getting one.


def counts_on_next(frame: FrameType) -> bool:
    """Whether the frame that asks calls `next`, and nothing of the program that runs knows of an end.

    A loader that ended early would end the program there. Loops that make a new iterator at the end, or stop
    there, name `StopIteration`; a `for` does not call.
    """
    code = frame.f_code
    if "next" not in code.co_names or not _is_own(code):
        return False
    # Python 3.11 calls some functions in what goes before a call, PRECALL.
    if "CALL" not in opname[code.co_code[frame.f_lasti]]:
        return False
    around: FrameType | None = frame
    while around is not None:
        if "StopIteration" in around.f_code.co_names and _is_own(around.f_code):
            return False
        around = around.f_back
    return True


@functools.lru_cache(maxsize=4096)
def _is_own(code: CodeType) -> bool:
    return is_the_programs(os.path.abspath(code.co_filename))


def install(patches: Patches, watch: Watch) -> None:
    passes: dict = {}
    observer, repeated = watch.observer, Repeated()
    shared = ragged.Ragged(Settling(observer.ledger, observer.gpu.memory))
    whole_reads, growing = Allowance(_WHOLE_READ_OPS), Growing(watch)
    numbers = count()

    def __iter__(self: Any) -> Iterator[Any]:
        passes[id(self)] = passes.get(id(self), 0) + 1
        number = passes[id(self)]
        return Passage(self, watch, number, shared, repeated, whole_reads, growing, next(numbers))

    make = data.DataLoader.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        observer.loaders.append(ref(self))

    patches.set(data.DataLoader, "__init__", __init__)
    patches.set(data.DataLoader, "__iter__", __iter__)


class Passage:
    """One time through a loader."""

    def __init__(
        self,
        loader: Any,
        watch: Watch,
        number: int,
        shared: ragged.Ragged,
        repeated: Repeated,
        whole_reads: Allowance,
        growing: Growing,
        of_all: int,
    ):
        self._loader = loader
        watch.observer.read_loader = ref(loader)
        self._watch = watch
        self._number = number
        self._pass = of_all
        self._shared = shared
        self._repeated = repeated
        self._whole_reads = whole_reads
        self._growing = growing
        # Live bytes before each batch.
        self._held: list[int] = []
        self._order_is_known = order.is_known(loader, watch.observer.follows_draws())
        # Many programs make a new loader for each epoch.
        self._source = (id(loader.dataset), loader.batch_size)
        self._indices = order.Epoch(loader, watch.observer)
        self._steps = dict(watch.steps_of)
        self._backwards = watch.backwards
        self._calls = watch.calls
        self._ops = watch.observer.ops
        self._mark = self._ops
        # Where the events of this batch begin.
        self._began = shared.begins()
        self._given = 0
        # Batches that the loop of the program was led past.
        self._skipped = 0
        self._recent: Any = None
        # Of batches with so many samples.
        self._shapes: dict[Any, set[tuple]] = {}
        self._over = False
        # Whether only batches are run that are larger than all before, and because the others leave nothing new.
        self._chooses = False
        self._settled = False
        # Whether it is read to its end.
        self._is_whole = False
        # Whether the program asks for each batch itself, and ends where there is none.
        self._counted_on = False

    def __iter__(self) -> Passage:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        observer = self._watch.observer
        # Up to the next mark: what may come earlier or later in a real run, where batches differ.
        observer.ledger.mark(f"batch:{self._pass}")
        # Before workers draw from generators of their own: the program's is where it would be.
        observer.follows_draws()
        if self._over:
            raise StopIteration
        self._counted_on = counts_on_next(sys._getframe(1))
        if self._is_ragged():
            observer.differ = True
            if not self._order_is_known or self._watch.short_epochs:
                observer.guess_order(drawn=not self._order_is_known)
            self._shared.spent(observer.ops - self._mark, self._reads(), self._chooses)
            if self._given:
                self._shared.ran(self._began, self._reads())
            settled = self._is_settled(self._reads())
            if (self._shared.runs_all(self._reads()) and not settled) or self._shared.looks():
                # What the next batch leaves may be new, however long that takes.
                self._watch.news()
        self._mark = observer.ops
        self._held.append(observer.ledger.live_bytes)
        if self._watch.short_epochs and self._given == self._epoch_end() - 1:
            # Before the last one of a short epoch; what its first step makes is there.
            left = self._batches_left()
            self._growing.left_out(self._source, self._held, left)
            if self._watch.whole_epochs:
                self._mark_left_out((left or 0) - 1)
        batch = self._next()
        self._given += 1
        if not self._over:
            self._shapes.setdefault(self._samples(), set()).add(ragged.shapes(batch))
        # The second batch without a backward pass: this loader is read, not trained on.
        self._watch.batch_given(self._given > 1 and self._reads())
        self._began = self._shared.begins()
        return batch

    def _next(self) -> Any:
        if self._chooses:
            return self._next_larger()
        if self._ends_epoch():
            return self._fetch(self._last())
        if self._enough() and not self._is_led():
            if self._is_ragged():
                observer = self._watch.observer
                observer.differ = True
                observer.guess_order()
            if not self._is_ragged():
                return self._fetch(self._last())
            self._chooses = True
            self._settled = self._is_settled(self._reads())
            return self._next_larger()
        try:
            self._recent = next(self._indices)
        except StopIteration:
            self._shared.whole.add(self._source)
            raise
        batch = self._fetch(self._recent)
        self._is_larger(batch)
        return batch

    def _is_led(self) -> bool:
        """Whether the loop that asks comes to something else before the end, and is now led to it."""
        loop, left = self._watch.batch_loop, self._batches_left()
        if loop is None or not left or left < 0 or self._is_ragged():
            return False
        skipped = loop.leads(left)
        if skipped is None:
            loop.leaves_out(left - (self._short() > 0))
            return False
        next(islice(self._indices, skipped, skipped), None)
        self._skipped += skipped
        self._mark_left_out(skipped)
        return True

    def _mark_left_out(self, batches: int) -> None:
        """Says in the trace how many batches a real run has here, and how many a step is of.

        They ask for what those before them did.
        """
        if batches > 0 and not self._is_ragged():
            each = self._given // min(filter(None, self._watch.steps_since(self._steps)), default=1)
            mark = f"left-out:{self._pass}:{batches}:{1 if self._reads() else max(1, each)}"
            self._watch.observer.ledger.mark(mark)

    def _next_larger(self) -> Any:
        """The next batch that is larger than all before it, or at which the program may do something else."""
        loop, left = self._watch.batch_loop, self._batches_left()
        place = loop.seldom(left) if loop is not None and left and left > 0 else None
        batch, passed = None, 0
        while self._shared.looks() and not self._passed_enough(passed):
            try:
                index = next(self._indices)
            except StopIteration:
                self._over = True
                if batch is None:
                    raise
                self._pass_over(passed - 1)
                return batch
            self._recent = index
            batch = self._shared.fetch(self._indices, index)
            if self._is_larger(batch) or passed == place:
                if loop is not None and passed != place:
                    loop.stops_before()
                self._pass_over(passed)
                return batch
            passed += 1
        self._pass_over(passed)
        if place is None or place < passed:
            return self._fetch(self._last())
        next(islice(self._indices, place - passed, place - passed), None)
        self._pass_over(place - passed)
        self._recent = next(self._indices)
        return self._fetch(self._recent)

    def _passed_enough(self, passed: int) -> bool:
        """Whether to look for no more larger batches: the stream's length is unknown, and enough were passed over."""
        endless = self._settled and self._batches_left() is None
        return endless and self._skipped + passed >= _PASSED_OF_STREAM * self._given

    def _is_larger(self, batch: Any) -> bool:
        emptied, loop = self._watch.observer.ledger.emptied, self._watch.batch_loop
        if self._shared.begins_anew(self._source, emptied) and loop is not None:
            loop.stops_before()
        return self._shared.is_larger(batch, self._source, self._samples() or 0)

    def _samples(self) -> int | None:
        return len(self._recent) if isinstance(self._recent, list) else None

    def _pass_over(self, batches: int) -> None:
        """For batches that are not run: what the loop counts goes on."""
        if batches > 0:
            self._skipped += batches
            if (loop := self._watch.batch_loop) is not None:
                self._watch.leaves_out()
                loop.leaves_out(batches)

    def _fetch(self, index: Any) -> Any:
        if self._loader._dataset_kind == _DatasetKind.Iterable or self._is_ragged():
            return self._indices.fetch(index)
        samples = self._loader.dataset
        try:
            kind = (type(samples), len(samples))
        except (TypeError, NotImplementedError):
            kind = None
        return self._repeated.fetch(self._source, index, self._indices.fetch, kind)

    def _reads(self) -> bool:
        return self._watch.backwards == self._backwards

    def _is_settled(self, reads: bool) -> bool:
        """Where each real run has an order of its own, any batch may come first: all count."""
        known = self._order_is_known and not self._watch.observer.facts.drawn
        return known and self._shared.is_settled(reads, self._source in self._shared.whole)

    def _enough(self) -> bool:
        if self._is_whole or self._counted_on or not self._saw_enough():
            return False
        left = self._batches_left()
        each = (self._watch.observer.ops - self._ops) / max(1, self._given)
        self._is_whole = self._growing.runs_rest(self._source, self._held, left, each * (left or 0))
        return not self._is_whole

    def _saw_enough(self) -> bool:
        watch = self._watch
        if self._given >= _MAX_BATCHES:
            return True
        if watch.short_epochs:
            return False
        if watch.calls == self._calls:
            # Collected for one step, as with gradient accumulation.
            return False
        reads = self._reads()
        if self._is_ragged():
            left = self._batches_left()
            if left is not None and left <= 0:
                return False
            if self._is_settled(reads):
                return True
            return not (self._shared.runs_all(reads) or self._can_end(left))
        ops = watch.observer.ops - self._ops
        if self._given <= self._drawn_alike(ops) and self._number < 3:
            return False
        if reads:
            settled = _SETTLED_READ if ops < _CHEAP_READ_OPS else _READ
            return self._given >= (settled if self._number < 3 else 1) and not self._reads_all(ops)
        steps = watch.steps_since(self._steps)
        # Loops without an optimizer of PyTorch's count by their backward passes.
        steps = steps or [watch.backwards - self._backwards]
        settled = _SETTLED_STEPS if ops < _CHEAP_OPS else _STEPS
        wanted = settled if self._number < 3 else 1
        return max(steps) >= wanted and min(steps) >= min(wanted, 2)

    def _drawn_alike(self, ops: int) -> int:
        """How many batches say nothing about others, as each worker drew the same for its first, and its second."""
        alike = self._indices.alike
        if alike == 1:
            return 0
        return 2 * alike if ops < _CHEAP_OPS else alike

    def _reads_all(self, ops: int) -> bool:
        left = self._batches_left()
        if not self._is_whole and left is not None and left > 0:
            rest = left * ops / self._given
            self._is_whole = rest < _CHEAP_READ_OPS and self._whole_reads.take(rest)
        return self._is_whole

    def _batches_left(self) -> int | None:
        try:
            return len(self._loader) - self._given - self._skipped
        except TypeError:
            return None

    def _can_end(self, left: int | None) -> bool:
        """Whether all that are left can be run instead of the larger ones, judged by those that were."""
        if left is None:
            return False
        each = (self._watch.observer.ops - self._ops) / self._given
        return self._shared.has_ops(each * left)

    def _ends_epoch(self) -> bool:
        """Whether a trainer that ends its epochs itself is at the end of one: the last batch is a short one."""
        end = self._epoch_end()
        seen_whole = self._number > 1 and self._given > 0
        return seen_whole and self._given == end - 1 and self._short() > 0

    def _epoch_end(self) -> int:
        return self._watch.epoch_ends["read" if self._reads() else "train"]

    def _short(self) -> int:
        """How many samples the last batch has, where they are fewer than those of the others."""
        sampler = self._loader._index_sampler
        is_stream = self._loader._dataset_kind == _DatasetKind.Iterable
        if is_stream or type(sampler) is not data.BatchSampler or sampler.drop_last:
            return 0
        whole = isinstance(self._recent, list)
        return len(sampler.sampler) % sampler.batch_size if whole else 0

    def _is_ragged(self) -> bool:
        # How many samples the last batch of a stream has is not known before.
        usual = 2 if self._loader._dataset_kind == _DatasetKind.Iterable else 1
        of_a_number = max((len(shapes) for shapes in self._shapes.values()), default=0)
        # One shape of many samples, and that of the last.
        of_all = len(set().union(*self._shapes.values()))
        if of_a_number > usual or of_all > 2:
            self._shared.sources.add(self._source)
        return self._source in self._shared.sources or len(self._watch.observer.packed) > 2

    def _last(self) -> Any:
        self._over = True
        loader = self._loader
        left = self._batches_left()
        if left is None or left > 1:
            self._watch.left_out = True
        sampler = loader._index_sampler
        is_plain = type(sampler) is data.BatchSampler
        ends = loader._dataset_kind == _DatasetKind.Iterable or (
            is_plain and (self._short() == 0 or self._given + self._skipped >= len(sampler))
        )
        if not self._watch.short_epochs:
            self._mark_left_out((left or 0) - (not ends))
        if ends:
            raise StopIteration
        if is_plain:
            return self._recent[: self._short()]
        rest = deque(islice(self._indices, _MAX_INDICES), maxlen=1)
        if not rest:
            raise StopIteration
        return rest[0]
