"""W-TinyLFU over keys and their bytes; with a window of all memory it is plain LRU."""

from __future__ import annotations

from collections import OrderedDict

from .frequencies import Frequencies

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
