"""Training batches that adapt to memory: each sample comes exactly once, and the position can be saved."""

from __future__ import annotations

import logging
import mmap
import os
import statistics
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Callable

from .arguments import BadType, BadValue, function, path, samples, share, shown, truth, whole
from .failure import Failure
from .memory.gauge import gauge_of

# A batch that knows which samples it holds.


class Batch(list[Any]):
    """Samples in order; `start` is the number of the first of them in the dataset."""

    __slots__ = ("start",)

    start: int

    @property
    def stop(self) -> int:
        return self.start + len(self)


# Where an iterator is, on disk: whole after kill -9, and after a power cut.
#
# The file has two slots, written in turn: while one is being written the other is whole. It is mapped
# into memory: a write takes a tenth of a microsecond and outlives the process; it is forced to the
# disk every 5 s and at each commit.

# Magic, what seldom changes (a number that rises when it does, size, epoch), then what changes with each
# batch: start, check. In the machine's own byte order: each field is also a word of its own.
SLOT = struct.Struct("=8s5Q")
MAGIC = b"PLIMSOL2"
FILE_BYTES = 128
SECOND = 64
# Places in words of 8 bytes: the first slot's start and check, and how far the second slot is.
START, CHECK, SECOND_WORD = 4, 5, SECOND // 8
# Forcing a page to a busy disk can take a tenth of a second; a power cut then has some seconds done again.
SYNC_SECONDS = 5.0
# Any odd number with many bits does; it spreads a change in one field over the whole check.
SPREAD = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


class PositionFile:
    """One process at a time has it; two that shared one would each skip what the other did.

    `words` and `base` are for programs that save with each batch: `words[START] = start` and
    `words[CHECK] = start ^ base`, in the slot that was not written last. All else is done here.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._synced = time.monotonic()
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644
            )
        except OSError as error:
            raise Failure(
                "position-unwritable",
                f"{path}: {error.strerror}",
                "name another file for the position",
            ) from error
        try:
            _lock(self._descriptor, path)
            # Only once it is known to be ours is the file changed: a name given by mistake is left as it is.
            self.saved = self._newest(os.pread(self._descriptor, FILE_BYTES + 1, 0))
            os.ftruncate(self._descriptor, FILE_BYTES)
            self._map = mmap.mmap(self._descriptor, FILE_BYTES)
        except BaseException:
            os.close(self._descriptor)
            raise
        self.words = memoryview(self._map).cast("Q")
        self.base = 0
        self._kept = (-1, -1)

    def begin(self, start: int, size: int, epoch: int) -> None:
        """Saves a position that need not be later than the last, with all that belongs to it."""
        newest = max(self._slots(), key=_order, default=None)
        number = 1 if newest is None else newest["number"] + 1
        self.base = _base(number, size, epoch)
        self._kept = (size, epoch)
        slot = (MAGIC, number, size, epoch, start, start ^ self.base)
        # The older slot first: until it is whole, the newer one is.
        newer = SECOND if newest is None else newest["place"]
        for place in (newer ^ SECOND, newer):
            SLOT.pack_into(self._map, place, *slot)

    def save(self, start: int, size: int, epoch: int, durably: bool = False) -> None:
        if self._kept != (size, epoch) or not self._save_next(start):
            self.begin(start, size, epoch)
        if durably or time.monotonic() - self._synced >= SYNC_SECONDS:
            self._map.flush()
            self._synced = time.monotonic()

    def close(self) -> None:
        if not self._map.closed:
            self._map.flush()
            self.words.release()
            self._map.close()
            os.close(self._descriptor)

    def _save_next(self, start: int) -> bool:
        """A later position in the older slot; False where that would not do."""
        words = self.words
        newer = SECOND_WORD if words[SECOND_WORD + START] > words[START] else 0
        last = words[newer + START]
        # Somebody's Ctrl-C may have come between the two words.
        if start < last or words[newer + CHECK] != last ^ self.base:
            return False
        words[(newer ^ SECOND_WORD) + START] = start
        words[(newer ^ SECOND_WORD) + CHECK] = start ^ self.base
        return True

    def _newest(self, content: bytes) -> dict[str, int] | None:
        if not content.strip(b"\0"):
            return None
        states = _slots(content)
        if not states or len(content) > FILE_BYTES:
            raise Failure(
                "position-unreadable",
                f"{self.path} is not a position file",
                "name the file that plimsoll.batches wrote, or delete this one to start at the first sample",
            )
        return max(states, key=_order)

    def _slots(self) -> list[dict[str, int]]:
        return _slots(self._map[:FILE_BYTES])


def _slots(content: bytes) -> list[dict[str, int]]:
    return [state for state in (_whole(content, 0), _whole(content, SECOND)) if state]


def _order(state: dict[str, int]) -> tuple[int, int]:
    return state["number"], state["next"]


def _base(number: int, size: int, epoch: int) -> int:
    return ((number * SPREAD ^ size) * SPREAD ^ epoch) * SPREAD & MASK


def _whole(content: bytes, place: int) -> dict[str, int] | None:
    """A slot's state; None where it was cut short or is not ours."""
    if len(content) < place + SLOT.size:
        return None
    magic, number, size, epoch, start, check = SLOT.unpack_from(content, place)
    if magic != MAGIC or check != start ^ _base(number, size, epoch):
        return None
    return {"number": number, "next": start, "size": size, "epoch": epoch, "place": place}


def _lock(descriptor: int, path: str) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise Failure(
            "position-in-use",
            f"{path} is in use by another process that is running",
            "give each process (each rank) a file of its own",
        ) from None
    except OSError:
        # A network file system without locks; one is then trusted to be alone.
        pass


# `plimsoll.batches`: batches that adapt to memory, in order, each sample once.

log = logging.getLogger("plimsoll")

# Looking at memory costs some microseconds; batches of cheap samples come faster than it changes.
LOOK_SECONDS = 0.05


# Decides the size of the next batch from how full memory is, and where it is going.
#
# `adaptiveBatches` of Node decides by the same rule (src/batches/adaptive-batches.ts);
# test/fixtures/recovery-rules.json holds both to the same answers.

SHRINK_ABOVE = 0.85
GROW_BELOW = 0.50
# Looks at the memory by which its rise is told.
LOOKS_KEPT = 4
# Memory that will be above the mark within so many looks counts as above it.
LOOKS_AHEAD = 2


def next_size(
    size: int,
    largest: int,
    smallest: int,
    used_shares: Sequence[float],
    shrink_above: float,
    grow_below: float,
    resting_share: float | None = None,
) -> int:
    """Half as many above one line, or where memory rises to it; twice as many below the other, never more than
    was asked for.

    `used_shares` are the highest of each look since this size was taken, the newest last, and `resting_share`
    what is in use between batches, where that is known.

    >>> next_size(32, 32, 1, [0.9], 0.85, 0.5)
    16
    >>> next_size(32, 32, 1, [0.62, 0.68, 0.74, 0.8], 0.85, 0.5)
    16
    >>> next_size(16, 32, 1, [0.4], 0.85, 0.5)
    32
    """
    if not used_shares:
        return size
    used = used_shares[-1]
    if used + LOOKS_AHEAD * _rise(used_shares) > shrink_above:
        return max(smallest, size // 2)
    twice = used + max(0.0, used - (used if resting_share is None else resting_share))
    if used < grow_below and twice <= shrink_above:
        return min(largest, size * 2)
    return size


def _rise(used_shares: Sequence[float]) -> float:
    """Growth from one check to the next: the median of the last ones, so that one jump does not count as growth."""
    last = list(used_shares)[-LOOKS_KEPT:]
    if len(last) < LOOKS_KEPT:
        return 0.0
    return max(0.0, statistics.median(after - before for before, after in zip(last, last[1:])))


class Batches:
    """An iterator over a dataset. A batch is confirmed when the next is asked for, or by `commit`.

    `confirmed` is the number of samples that were, in the pass `epoch`; a resume starts there. At any
    time, the batches confirmed in this pass hold the samples 0 to `confirmed` - 1, each once, in order.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        collate: Callable[[Batch], Any] | None = None,
        position: str | None = None,
        smallest: int = 1,
        shrink_above: float = SHRINK_ABOVE,
        grow_below: float = GROW_BELOW,
        used_share: Callable[[], float] | None = None,
        drop_last: bool = False,
    ) -> None:
        samples("dataset", dataset)
        whole("batch_size", batch_size, 1)
        whole("smallest", smallest, 1)
        share("shrink_above", shrink_above)
        share("grow_below", grow_below)
        function("collate", collate)
        function("used_share", used_share)
        truth("drop_last", drop_last)
        if position is not None:
            position = path("position", position, "epoch.position")
        if smallest > batch_size:
            fact = f"smallest ({smallest}) must not be above batch_size ({batch_size})"
            raise BadValue(fact, f"pass smallest={batch_size} or less")
        if not grow_below < shrink_above:
            fact = f"grow_below ({grow_below}) must be below shrink_above ({shrink_above})"
            raise BadValue(fact, "pass grow_below=0.5 and shrink_above=0.85, or leave both out")
        self.batch_size = batch_size
        self.confirmed = 0
        self.epoch = 0
        self._dataset = dataset
        self._largest, self._smallest = batch_size, smallest
        self._lines = shrink_above, grow_below
        self._collate = collate
        self._drop_last = drop_last
        self._used_share = used_share
        self._indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        self._given = 0
        self._again: int | None = None
        self._current: Batch | None = None
        self._running: Iterator[Any] | None = None
        self._ended = False
        self._looked = 0.0
        self._gauge: Any = None
        self._seen: deque[float] = deque(maxlen=LOOKS_KEPT)
        self._file = None if position is None else PositionFile(position)
        if self._file is not None and self._file.saved is not None:
            self.load_state_dict(self._file.saved)

    def __len__(self) -> int:
        """Samples in the dataset, where it tells."""
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        # A pass after a whole one starts at the first sample; after a break it goes on.
        if self._running is None:
            if self._ended:
                self._ended = False
                self.epoch += 1
                self.confirmed = self._given = 0
            self._running = self._indexed_batches() if self._indexed else self._streamed_batches()
            if self._file is not None:
                self._file.begin(self.confirmed, self.batch_size, self.epoch)
        return self._running

    def __next__(self) -> Any:
        running = self._running
        return next(iter(self) if running is None else running)

    def commit(self) -> None:
        """Confirms the current batch now, durably; what was given before it is confirmed too."""
        self._confirm(self._given, durably=True)

    def retry(self) -> None:
        """Takes the current batch back: its samples come again, in smaller batches."""
        self._again = self.confirmed
        self.batch_size = max(self._smallest, self.batch_size // 2)
        log.warning(
            "plimsoll: the last batch is retried, with %d samples at a time", self.batch_size
        )

    def state_dict(self) -> dict[str, int]:
        """For a checkpoint: saved beside the model, a resume counts every sample exactly once."""
        return {"next": self.confirmed, "size": self.batch_size, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        if not isinstance(state, dict) or "next" not in state:
            fact = f"state must be what state_dict() answered, not {shown(state)}"
            raise BadType(fact, "pass the dict that was saved")
        start = whole('state["next"]', state["next"], 0)
        epoch = whole('state["epoch"]', state.get("epoch", 0), 0)
        size = whole('state["size"]', state.get("size", self._largest), 1)
        if self._indexed and start > len(self._dataset):
            raise Failure(
                "position-of-another-dataset",
                f"the saved position is sample {start}, but this dataset has {len(self._dataset)}",
                "use the dataset that the position was saved with, or start with a new position",
            )
        self.confirmed = self._given = start
        self.epoch = epoch
        self.batch_size = max(self._smallest, min(self._largest, size))
        self._running = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _indexed_batches(self) -> Iterator[Any]:
        dataset, collate = self._dataset, self._collate
        get, count = dataset.__getitem__, len(dataset)
        many = getattr(dataset, "__getitems__", None)
        clock, file, place = time.monotonic, self._file, 0
        words = None if file is None else file.words
        start = self._given
        while start < count:
            stop = start + self.batch_size
            if stop > count:
                if self._drop_last and start > 0:
                    break
                stop = count
            batch = Batch(many(list(range(start, stop))) if many else map(get, range(start, stop)))
            batch.start = start
            self._given = stop
            yield batch if collate is None else collate(batch)
            # The consumer came back for more: the batch is confirmed, unless it was taken back.
            if self._again is None and clock() - self._looked < LOOK_SECONDS:
                self.confirmed = start = stop
                if words is not None and file is not None:
                    # Written out here, in the slot whose turn it is: it is done with each batch.
                    words[place + START] = stop
                    words[place + CHECK] = stop ^ file.base
                    place ^= SECOND_WORD
            else:
                start = self._next_start(stop)
        self._end()

    def _streamed_batches(self) -> Iterator[Any]:
        collate = self._collate
        samples = iter(self._dataset)
        start = self._given
        skipped = sum(1 for _ in islice(samples, start))
        if skipped < start:
            raise Failure(
                "dataset-too-short",
                f"the dataset ended after {skipped} samples; {start} were confirmed",
                "use the dataset that the position was saved with, or start with a new position",
            )
        held = Batch()
        while True:
            batch = Batch(held[: self.batch_size])
            held = Batch(held[len(batch) :])
            batch.extend(islice(samples, self.batch_size - len(batch)))
            if not batch or (self._drop_last and len(batch) < self.batch_size and start > 0):
                break
            batch.start = start
            self._given = batch.stop
            yield batch if collate is None else collate(batch)
            taken_back = self._again is not None
            start = self._next_start(batch.stop)
            if taken_back:
                # A stream cannot be asked again; the samples are still here.
                held = Batch([*batch, *held])
        self._end()

    def _next_start(self, stop: int) -> int:
        if self._again is not None:
            start, self._again = self._again, None
            self._given = start
            self._save_size()
            return start
        self._confirm(stop)
        self._adapt()
        return stop

    def _confirm(self, stop: int, durably: bool = False) -> None:
        if stop == self.confirmed and not durably:
            return
        self.confirmed = stop
        if self._file is not None:
            self._file.save(stop, self.batch_size, self.epoch, durably)

    def _adapt(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        highest, resting = self._shares()
        self._seen.append(highest)
        seen, lines = list(self._seen), self._lines
        size = next_size(self.batch_size, self._largest, self._smallest, seen, *lines, resting)
        if size != self.batch_size:
            log.info(
                "plimsoll: %.0f %% of memory in use; batches of %d instead of %d",
                100 * highest,
                size,
                self.batch_size,
            )
            self.batch_size = size
            self._seen.clear()
            self._save_size()

    def _shares(self) -> tuple[float, float | None]:
        """The highest share of memory since the last look, and what is in use between batches where that is known."""
        if self._used_share is not None:
            return self._used_share(), None
        if self._gauge is None:
            self._gauge = gauge_of()
        resting, capacity = self._gauge.used_share(), self._gauge.capacity_bytes()
        over = max(0, self._gauge.peak_bytes() - self._gauge.used_bytes())
        self._gauge.reset_peak()
        return resting + over / max(1, capacity), resting

    def _save_size(self) -> None:
        if self._file is not None:
            self._file.save(self.confirmed, self.batch_size, self.epoch)

    def _end(self) -> None:
        self._running = None
        self._ended = True
        self._confirm(self._given, durably=True)


def batches(
    dataset: Any,
    batch_size: int = 32,
    *,
    collate: Callable[[Batch], Any] | None = None,
    position: str | None = None,
    smallest: int = 1,
    shrink_above: float = SHRINK_ABOVE,
    grow_below: float = GROW_BELOW,
    used_share: Callable[[], float] | None = None,
    drop_last: bool = False,
) -> Batches:
    """Batches of a dataset that shrink above 85 % of memory and grow back below 50 %.

        for batch in plimsoll.batches(dataset, batch_size=64, position="epoch.position"):
            train(batch)

    A batch is a list of samples (`collate` makes something else of it). With `position`, a crashed
    program that runs again goes on after the last confirmed batch; `commit()` confirms at once.
    """
    return Batches(
        dataset,
        batch_size,
        collate=collate,
        position=position,
        smallest=smallest,
        shrink_above=shrink_above,
        grow_below=grow_below,
        used_share=used_share,
        drop_last=drop_last,
    )
