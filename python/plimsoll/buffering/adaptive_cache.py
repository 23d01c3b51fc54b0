"""Which keys to keep within a limit of bytes: by frequency or by recency, whichever hits more."""

from __future__ import annotations

from collections import OrderedDict

# A small window keeps what is asked for often; the whole memory as window keeps what is recent.
BY_FREQUENCY = 0.01
BY_RECENCY = 1.0
# The other way must be better by this share before it is taken: less moves back and forth.
MARGIN = 0.02
# Hits are remembered over as many requests as there are items, at least over these.
LEAST_MEMORY = 50


# W-TinyLFU over keys and their bytes; with a window of all memory it is plain LRU.

# The part of what is outside the window for keys that were used there again.
PROTECTED_SHARE = 0.8


class Segment:
    """Keys with their sizes, the one that was used longest ago first."""

    def __init__(self) -> None:
        self.sizes: OrderedDict[str, int] = OrderedDict()
        self.bytes = 0

    def add(self, key: str, size: int) -> None:
        self.sizes[key] = size
        self.bytes += size

    def remove(self, key: str) -> int | None:
        size = self.sizes.pop(key, None)
        if size is not None:
            self.bytes -= size
        return size

    def oldest(self) -> str:
        return next(iter(self.sizes))

    def move_oldest(self, to: Segment) -> str:
        key, size = self.sizes.popitem(last=False)
        self.bytes -= size
        to.add(key, size)
        return key


class WindowCache:
    """New keys enter a window in order of use; one that leaves it stays only if it was asked for more
    often than the key that would have to go.
    """

    def __init__(self, limit_bytes: int, window_share: float, frequencies: Frequencies) -> None:
        self._window, self._probation, self._protected = Segment(), Segment(), Segment()
        self._limit, self._share = limit_bytes, window_share
        self._frequencies = frequencies

    @property
    def bytes(self) -> int:
        return self._window.bytes + self._probation.bytes + self._protected.bytes

    @property
    def count(self) -> int:
        return len(self._window.sizes) + len(self._probation.sizes) + len(self._protected.sizes)

    def size(self, key: str) -> int | None:
        for segment in (self._window, self._protected, self._probation):
            if key in segment.sizes:
                return segment.sizes[key]
        return None

    def touch(self, key: str) -> bool:
        """Notes a use; False where the key is not held."""
        for segment in (self._window, self._protected, self._probation):
            size = segment.remove(key)
            if size is not None:
                (self._window if segment is self._window else self._protected).add(key, size)
                self._demote()
                return True
        return False

    def add(self, key: str, size: int) -> list[str]:
        """Adds a key that is not held. The keys that had to go; never this one if it fits alone."""
        self._window.add(key, size)
        return self._fit()

    def remove(self, key: str) -> None:
        for segment in (self._window, self._protected, self._probation):
            segment.remove(key)

    def resize(self, limit_bytes: int, window_share: float) -> list[str]:
        self._limit, self._share = limit_bytes, window_share
        return self._fit()

    def _demote(self) -> None:
        most = (self._limit - self._limit * self._share) * PROTECTED_SHARE
        while self._protected.bytes > most:
            self._protected.move_oldest(self._probation)

    def _fit(self) -> list[str]:
        gone = []
        self._demote()
        # The newest stays in the window however large it is: what was just put can be read.
        while self._window.bytes > self._limit * self._share and len(self._window.sizes) > 1:
            candidate = self._window.move_oldest(self._probation)
            if self.bytes > self._limit:
                gone.append(self._contest(candidate))
        while self.bytes > self._limit and self.count > 0:
            gone.append(self._drop_oldest())
        return gone

    def _contest(self, candidate: str) -> str:
        victim = self._probation.oldest()
        wins = self._frequencies.of(candidate) > self._frequencies.of(victim)
        loser = victim if wins else candidate
        self._probation.remove(loser)
        return loser

    def _drop_oldest(self) -> str:
        for segment in (self._probation, self._protected, self._window):
            if segment.sizes:
                key = segment.oldest()
                segment.remove(key)
                return key
        raise AssertionError("a cache with bytes has keys")


# How often each key was asked for lately, also keys that are not held.

# Counts stop here: what was asked for often long ago must be forgotten in a few halvings.
HIGHEST = 15
# All counts are halved after so many requests for each item that fits.
REQUESTS_PER_ITEM = 10
# A store that holds almost nothing still needs some requests to tell items apart.
LEAST_ITEMS = 16


class Frequencies:
    """A plain dict instead of a sketch: buffers are large and few, and a dict is exact."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._requests = 0

    def of(self, key: str) -> int:
        return self._counts.get(key, 0)

    def count(self, key: str, items_held: int) -> None:
        self._counts[key] = min(HIGHEST, self.of(key) + 1)
        self._requests += 1
        if self._requests >= REQUESTS_PER_ITEM * max(items_held, LEAST_ITEMS):
            self._requests //= 2
            self._counts = {key: count // 2 for key, count in self._counts.items() if count > 1}


class AdaptiveCache:
    """Two shadows hold keys alone, one by frequency and one by recency; the window of the real one
    follows the shadow that had more hits lately.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._frequencies = Frequencies()
        self._real = WindowCache(limit_bytes, BY_FREQUENCY, self._frequencies)
        self._frequent = WindowCache(limit_bytes, BY_FREQUENCY, self._frequencies)
        self._recent = WindowCache(limit_bytes, BY_RECENCY, self._frequencies)
        self.limit_bytes = limit_bytes
        self._share = BY_FREQUENCY
        self._frequent_hits = self._recent_hits = 0.0

    @property
    def bytes(self) -> int:
        return self._real.bytes

    def use(self, key: str) -> None:
        """Notes that a key was asked for, held or not. Nothing has to go by that."""
        self._frequencies.count(key, self._real.count)
        self._learn(self._shadow_use(self._frequent, key), self._shadow_use(self._recent, key))
        self._real.touch(key)

    def add(self, key: str, size: int) -> list[str]:
        """Adds a key, or gives it another size. The keys that have to go."""
        if self._frequencies.of(key) == 0:
            self._frequencies.count(key, self._real.count)
        for shadow in (self._frequent, self._recent):
            if shadow.size(key) != size:
                shadow.remove(key)
                shadow.add(key, size)
        self._real.remove(key)
        return self._real.add(key, size)

    def remove(self, key: str) -> None:
        for cache in (self._real, self._frequent, self._recent):
            cache.remove(key)

    def resize(self, limit_bytes: int) -> list[str]:
        self.limit_bytes = limit_bytes
        self._frequent.resize(limit_bytes, BY_FREQUENCY)
        self._recent.resize(limit_bytes, BY_RECENCY)
        return self._real.resize(limit_bytes, self._share)

    def _shadow_use(self, shadow: WindowCache, key: str) -> bool:
        if shadow.touch(key):
            return True
        size = self._real.size(key)
        if size is not None:
            shadow.add(key, size)
        return False

    def _learn(self, frequent_hit: bool, recent_hit: bool) -> None:
        kept = 1 - 1 / max(LEAST_MEMORY, self._real.count)
        self._frequent_hits = self._frequent_hits * kept + frequent_hit
        self._recent_hits = self._recent_hits * kept + recent_hit
        towards = 1 + MARGIN if self._share == BY_RECENCY else 1 - MARGIN
        better = self._frequent_hits >= self._recent_hits * towards
        share = BY_FREQUENCY if better else BY_RECENCY
        if share != self._share:
            self._share = share
            # What is held is below the limit, so another window moves keys and drops none.
            self._real.resize(self.limit_bytes, share)
