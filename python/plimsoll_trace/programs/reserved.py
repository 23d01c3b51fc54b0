"""What the caching allocator would hold now: asked by programs, which print it or choose a batch by it.

The requests of the trace go through PyTorch's rules as far as they came when somebody asks. Streams have memory of
their own; that a block waits for the work of another stream is left out.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from typing import Any

_STEP = 512
_MIB = 2**20
# Requests up to here share segments of two MiB; those below ten MiB, segments of twenty.
_LARGEST_SMALL = _MIB
_SMALL_SEGMENT = _SEGMENT_STEP = 2 * _MIB
_SHARED_SEGMENT = 20 * _MIB
_SMALLEST_OWN = 10 * _MIB


class _Block:
    """A part of a segment, between two others."""

    __slots__ = ("address", "after", "before", "is_free", "pool", "size")

    def __init__(self, pool: list, address: int, size: int) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.before: _Block | None = None
        self.after: _Block | None = None
        self.is_free = False


class Reserved:
    def __init__(self, events: list, capacity: int) -> None:
        self._events = events
        self._capacity = capacity
        self._seen = 0
        self._live: dict[int, _Block] = {}
        # Free blocks by stream and kind: their size, their address, and themselves.
        self._pools: defaultdict[tuple[int, bool], list] = defaultdict(list)
        self._address = 0
        self._allocated = self._reserved = self._peak_allocated = self._peak_reserved = 0

    def now(self) -> int:
        self._catch_up()
        return self._reserved

    def allocated(self) -> int:
        self._catch_up()
        return self._allocated

    def peak(self) -> int:
        self._catch_up()
        return self._peak_reserved

    def peak_until(self, end: int) -> int:
        """Of the first so many events, which are more than at any call before."""
        self._catch_up(end)
        return self._peak_reserved

    def peak_allocated(self) -> int:
        self._catch_up()
        return self._peak_allocated

    def counts(self) -> tuple[int, int]:
        """How many blocks are in use, and how many segments hold them and the free ones."""
        self._catch_up()
        free = (one[2] for pool in self._pools.values() for one in pool)
        return len(self._live), sum(b.before is None for b in (*self._live.values(), *free))

    def reset_peaks(self) -> None:
        self._catch_up()
        self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def _catch_up(self, end: int | None = None) -> None:
        events = self._events
        end = len(events) if end is None else end
        for at in range(self._seen, end):
            event = events[at]
            kind = event[0]
            if kind == "a":
                self._live[event[1]] = self._take(event[2], event[6] if len(event) > 6 else 0)
            elif kind == "f":
                self._give(self._live.pop(event[1]))
            elif kind == "o" and event[1] > 0:
                self._give(self._take(event[1], 0))
            elif kind == "c":
                self._release()
        self._seen = max(self._seen, end)

    def _take(self, asked: int, stream: int) -> _Block:
        size = -(-asked // _STEP) * _STEP
        small = size <= _LARGEST_SMALL
        pool = self._pools[stream, small]
        place = bisect_left(pool, (size,))
        block = pool.pop(place)[2] if place < len(pool) else self._segment(pool, size)
        block.is_free = False
        rest = block.size - size
        if rest >= _STEP if small else rest > _LARGEST_SMALL:
            self._split(block, size)
        self._allocated += block.size
        self._peak_allocated = max(self._peak_allocated, self._allocated)
        return block

    def _segment(self, pool: list, size: int) -> _Block:
        whole = -(-size // _SEGMENT_STEP) * _SEGMENT_STEP
        if size < _SMALLEST_OWN:
            whole = _SMALL_SEGMENT if size <= _LARGEST_SMALL else _SHARED_SEGMENT
        if self._reserved + whole > self._capacity:
            self._release()
        block = _Block(pool, self._address, whole)
        self._address += whole
        self._reserved += whole
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        return block

    def _split(self, block: _Block, size: int) -> None:
        rest = _Block(block.pool, block.address + size, block.size - size)
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.size = rest, size
        self._keep(rest)

    def _give(self, block: _Block) -> None:
        self._allocated -= block.size
        before, after = block.before, block.after
        if after is not None and after.is_free:
            self._join(block, after, after)
        if before is not None and before.is_free:
            self._join(before, block, before)
            block = before
        self._keep(block)

    def _join(self, first: _Block, second: _Block, free: _Block) -> None:
        """Two neighbours become one; the one that was free is so no longer by itself."""
        pool = free.pool
        pool.pop(bisect_left(pool, (free.size, free.address)))
        first.size += second.size
        first.after = second.after
        if first.after is not None:
            first.after.before = first

    def _keep(self, block: _Block) -> None:
        block.is_free = True
        insort(block.pool, (block.size, block.address, block))

    def _release(self) -> None:
        """Gives back all segments that are wholly free."""
        for pool in self._pools.values():
            whole = [one for one in pool if one[2].before is None and one[2].after is None]
            self._reserved -= sum(size for size, _, _ in whole)
            pool[:] = [one for one in pool if one[2].before is not None or one[2].after is not None]


# Numbers that PyTorch keeps of each kind of request, all, small and large ones.
_KINDS = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
_PLAIN = (
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
    "max_split_size",
)
_OVERSIZE = ("oversize_allocations", "oversize_segments")


def _statistics(reserved: Reserved) -> dict[str, int]:
    """All names that PyTorch has. Which blocks are small, and what was ever freed, is not told apart."""
    parts = ("current", "peak", "allocated", "freed")
    found = {
        f"{k}.{p}.{x}": 0
        for k in _KINDS
        for p in ("all", "small_pool", "large_pool")
        for x in parts
    }
    found.update({f"{kind}.{part}": 0 for kind in _OVERSIZE for part in parts})
    found.update(dict.fromkeys(_PLAIN, 0))
    blocks, segments = reserved.counts()
    for kind, now, peak in (
        ("allocation", blocks, blocks),
        ("active", blocks, blocks),
        ("segment", segments, segments),
        ("allocated_bytes", reserved.allocated(), reserved.peak_allocated()),
        ("active_bytes", reserved.allocated(), reserved.peak_allocated()),
        ("requested_bytes", reserved.allocated(), reserved.peak_allocated()),
        ("reserved_bytes", reserved.now(), reserved.peak()),
    ):
        found[f"{kind}.all.current"], found[f"{kind}.all.peak"] = now, peak
    return found


def _nested(flat: dict[str, int]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        place = whole
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return whole


def table(ledger: Any, capacity: int) -> dict[str, Any]:
    """The functions of `torch.cuda` that tell of memory, by name."""
    reserved = Reserved(ledger.events, capacity)

    def free_and_total(*_: Any) -> Any:
        return max(0, capacity - reserved.now()), capacity

    def statistics(*_: Any, **__: Any) -> dict[str, int]:
        return _statistics(reserved)

    def nested(*_: Any, **__: Any) -> dict[str, Any]:
        return _nested(_statistics(reserved))

    return {
        "memory_allocated": lambda *_, **__: reserved.allocated(),
        "memory_reserved": lambda *_, **__: reserved.now(),
        "max_memory_allocated": lambda *_, **__: reserved.peak_allocated(),
        "max_memory_reserved": lambda *_, **__: reserved.peak(),
        "mem_get_info": free_and_total,
        "memory_stats": statistics,
        "memory_stats_as_nested_dict": nested,
        "device_memory_used": lambda *_, **__: reserved.now(),
        "reset_peak_memory_stats": lambda *_, **__: reserved.reset_peaks(),
        "reset_max_memory_allocated": lambda *_, **__: reserved.reset_peaks(),
        "reset_max_memory_cached": lambda *_, **__: reserved.reset_peaks(),
    }
