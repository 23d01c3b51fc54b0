"""Which keys to keep within a limit of bytes: by frequency or by recency, whichever hits more."""

from __future__ import annotations

from .frequencies import Frequencies
from .window_cache import WindowCache

# A small window keeps what is asked for often; the whole memory as window keeps what is recent.
BY_FREQUENCY = 0.01
BY_RECENCY = 1.0
# The other way must be better by this share before it is taken: less moves back and forth.
MARGIN = 0.02
# Hits are remembered over as many requests as there are items, at least over these.
LEAST_MEMORY = 50


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
