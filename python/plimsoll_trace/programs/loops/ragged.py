"""Batches of different sizes: which of them to run, so that what the allocator will hold is found.

A batch that is larger than all before it asks for blocks that no block fits, and leaves the smaller ones
unused: a tagger of sentences came to hold 3.6 times what it used. All batches are run while that is cheap,
and the rest of them where that takes no more. After that they are only looked at, in their order, and those are
run that are larger than all before. Once the program has emptied the cache no block is left: those after that are
compared with one another alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import torch

from ..reserved import Reserved
from .reading_ahead import seconds

# Whether batches of different sizes still make the allocator hold more.
#
# They are run for what each leaves to the next. That rises with the first ones and then no more: a detector held after
# five batches all that it would ever hold, and the next twenty took half a minute. From there on only larger ones may
# ask for more.

# So many batches in a row, and as many as there were before them.
_LEAST = 6
# Rises that together come to less than this part of what is held are none.
_SMALL = 1 / 200


class Settling:
    def __init__(self, ledger: Any, capacity: int) -> None:
        self._events = ledger.events
        self._reserved = Reserved(ledger.events, capacity)
        # Of batches that were not looked at yet: where their events begin and end, and whether they were only read.
        self._unseen: list[tuple[int, int, bool]] = []
        self._of = {False: _Rises(), True: _Rises()}

    def begins(self) -> int:
        """For `ran`, before a batch is run."""
        return len(self._events)

    def ran(self, began: int, reads: bool) -> None:
        self._unseen.append((began, len(self._events), reads))

    def is_settled(self, reads: bool) -> bool:
        """Whether batches like these have made it hold no more for long."""
        for began, ended, kind in self._unseen:
            before = self._reserved.peak_until(began)
            self._of[kind].add(before, self._reserved.peak_until(ended))
        self._unseen.clear()
        return self._of[reads].is_over()


class _Rises:
    """How much more was held after each batch than ever before."""

    def __init__(self) -> None:
        self._batches = self._quiet = self._risen = 0

    def add(self, before: int, after: int) -> None:
        self._batches += 1
        self._quiet += 1
        self._risen += after - before
        if self._risen > _SMALL * after:
            self._quiet = self._risen = 0

    def is_over(self) -> bool:
        return self._quiet >= max(_LEAST, self._batches / 2)


# Ops of a program in which all batches are run: of those it trains on, and of those it reads.
_TRAINING_OPS = 60_000
_READING_OPS = 20_000
# In so many of these they are all run even if they leave nothing new; in fewer once all of a data set were.
_LEAST_TRAINING_OPS = 40_000
_LEAST_READING_OPS = 14_000
_LEAST_OF_WHOLE = 2 / 3
# Then, the ops that the larger ones may take, or all where these are enough, and what looking for them may:
# samples, and seconds of the processor, which only end what would take too long.
_LARGER_OPS = 50_000
_SAMPLES = 20_000
# Where few were run, more are left in which a larger one may be.
_SAMPLES_ONCE_SETTLED = 60_000
_SECONDS = 6.0
# A program that empties the cache after fewer batches than this does so all the time: none meets what others left.
_BATCHES_BETWEEN = 8
# A list of fewer parts than this may be anything, also where it has one for each sample.
_LEAST_SAMPLES = 4


class Ragged:
    """What a program's loaders have in common."""

    def __init__(self, settling: Settling | None = None) -> None:
        self._settling = settling
        self._reading = self._training = self._larger = self._samples = 0
        self._samples_to_look_at = _SAMPLES
        self._seconds = 0.0
        # By data set: the largest sizes, how many times the cache was emptied before, and batches since.
        self._largest: dict[Any, dict[str, int]] = {}
        self._emptied: dict[Any, int] = {}
        self._since: dict[Any, int] = {}
        # Data sets whose batches differ, and those of which all batches were run.
        self.sources: set[tuple] = set()
        self.whole: set[tuple] = set()

    def spent(self, ops: int, reads: bool, chosen: bool) -> None:
        if chosen:
            self._larger += ops
        elif reads:
            self._reading += ops
        else:
            self._training += ops

    def begins(self) -> int:
        """For `ran`, before a batch is run."""
        return 0 if self._settling is None else self._settling.begins()

    def ran(self, began: int, reads: bool) -> None:
        if self._settling is not None:
            self._settling.ran(began, reads)

    def runs_all(self, reads: bool) -> bool:
        return self._reading < _READING_OPS if reads else self._training < _TRAINING_OPS

    def is_settled(self, reads: bool, whole: bool) -> bool:
        """Whether all were run that may leave something new; whole: those of a data set were, before this time."""
        if self._settling is None:
            return False
        ops, least = self._training, _LEAST_TRAINING_OPS
        if reads:
            ops, least = self._reading, _LEAST_READING_OPS
        long = ops >= least * (_LEAST_OF_WHOLE if whole else 1)
        settled = long and self._settling.is_settled(reads)
        if settled:
            self._samples_to_look_at = _SAMPLES_ONCE_SETTLED
        return settled

    def looks(self) -> bool:
        """Whether larger batches are still looked for."""
        return (
            self.has_ops(1)
            and self._samples < self._samples_to_look_at
            and self._seconds < _SECONDS
        )

    def has_ops(self, ops: float) -> bool:
        """Whether so many may still be spent after those in which all are run."""
        more = max(0, self._training - _TRAINING_OPS) + max(0, self._reading - _READING_OPS)
        return self._larger + more + ops <= _LARGER_OPS

    def begins_anew(self, source: tuple, emptied: int) -> bool:
        """Whether the cache was emptied since the last batch of a data set, so that all that come now count.

        `emptied`: how many times the program has done so.
        """
        before = self._emptied.get(source, emptied)
        self._emptied[source] = emptied
        if before == emptied:
            return False
        if seldom := self._since.get(source, 0) >= _BATCHES_BETWEEN:
            self._largest.pop(source, None)
        self._since[source] = 0
        return seldom

    def is_larger(self, batch: Any, source: tuple, samples: int = 0) -> bool:
        """Whether it is larger, in anything, than all of its data set that were asked about."""
        self._since[source] = self._since.get(source, 0) + 1
        largest = self._largest.setdefault(source, {})
        larger = False
        for name, size in _sizes(batch, samples):
            if size > largest.get(name, -1):
                largest[name] = size
                larger = True
        return larger

    def fetch(self, fetcher: Any, index: Any) -> Any:
        started = seconds()
        batch = fetcher.fetch(index)
        self._seconds += seconds() - started
        self._samples += len(index) if isinstance(index, list) else 1
        return batch


def tensors(batch: Any, name: str = "", samples: int = 0) -> Iterator[tuple[str, Any]]:
    """Of all that a batch holds, with the place of each; `samples`: lists with so many parts have one for each.

    Which sample comes first says nothing: all of them have one place.
    """
    if isinstance(batch, torch.Tensor):
        yield name, batch
    elif isinstance(batch, Mapping):
        for key, value in batch.items():
            yield from tensors(value, f"{name}.{key}", samples)
    elif isinstance(batch, (list, tuple)):
        one_each = samples >= _LEAST_SAMPLES and len(batch) == samples
        for place, value in enumerate(batch):
            yield from tensors(value, f"{name}.{'*' if one_each else place}", samples)
    elif hasattr(batch, "to_dict"):
        # A batch of graphs.
        yield from tensors(batch.to_dict(), name, samples)
    elif hasattr(batch, "__dict__") and not isinstance(batch, type) and not callable(batch):
        # A class of the program's own. What it holds may refer back to it.
        for key, value in vars(batch).items():
            yield from _plain_tensors(value, f"{name}.{key}")


def _plain_tensors(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Tensors, and those that lie side by side in a container."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if isinstance(value, Mapping):
        held = list(value.items())
    else:
        held = list(enumerate(value)) if isinstance(value, (list, tuple)) else []
    for place, one in held:
        if isinstance(one, torch.Tensor):
            yield f"{name}.{place}", one


def shapes(batch: Any) -> tuple:
    return tuple(tuple(tensor.shape) for _, tensor in tensors(batch))


def _sizes(batch: Any, samples: int) -> Iterator[tuple[str, int]]:
    held: dict[str, list[Any]] = {}
    for name, tensor in tensors(batch, samples=samples):
        held.setdefault(name, []).append(tensor)
    yield "all", sum(tensor.numel() for ones in held.values() for tensor in ones)
    longest = {n for ones in held.values() for one in ones if one.dim() > 1 for n in one.shape[:2]}
    for name, ones in held.items():
        yield name, sum(one.numel() for one in ones)
        if len(ones) > 1:
            yield from _sizes_of_samples(name, ones)
            continue
        tensor = ones[0]
        counts = tensor.dim() == 1 and len(tensor) > 0 and not tensor.is_floating_point()
        counts = counts and _has_values(tensor)
        # Lengths of sequences that are filled up to the longest: programs pack them by these.
        if counts and int(tensor.max()) in longest:
            yield name + " packed", int(tensor.sum())


def _sizes_of_samples(name: str, ones: list[Any]) -> Iterator[tuple[str, int]]:
    """Pictures, boxes or sentences that a model works on one by one, or fills up to be of one size."""
    yield name + " largest", max(one.numel() for one in ones)
    if len({one.dim() for one in ones}) == 1:
        yield name + " filled", prod(map(max, zip(*(one.shape for one in ones))))


def _has_values(tensor: Any) -> bool:
    """What lies on the pretended card has none, and asking for them would be work of the program's."""
    with torch._C.DisableTorchFunction():
        return tensor.device.type == "cpu"
