"""Peaks of memory by the size of a microbatch, as they were measured."""

from __future__ import annotations

from .sizes import Measured

# Enough to draw a line; a job that sees many sizes keeps the newest.
MAX_SIZES = 16


class Peaks:
    def __init__(self) -> None:
        self._peaks: dict[int, int] = {}
        self._base: int | None = None

    @property
    def base_bytes(self) -> int | None:
        return self._base

    def rests_at(self, used_bytes: int) -> None:
        """What is held between steps: the line's value at size 0, and never above it. Peaks rise with it."""
        if self._base is None:
            self._base = used_bytes
        elif used_bytes > self._base:
            # The optimizer's states, made in the first step: every later peak is higher by them.
            more, self._base = used_bytes - self._base, used_bytes
            self._peaks = {size: peak + more for size, peak in self._peaks.items()}

    def measured(self, size: int, peak_bytes: int) -> None:
        highest = max(peak_bytes, self._peaks.pop(size, 0))
        self._peaks[size] = highest
        while len(self._peaks) > MAX_SIZES:
            del self._peaks[next(iter(self._peaks))]

    def forget_from(self, failed: int) -> None:
        """Sizes that fitted, and now fail: what was measured of them no longer holds."""
        for size in [size for size in self._peaks if size >= failed]:
            del self._peaks[size]

    def __contains__(self, size: int) -> bool:
        """Whether a microbatch of this size was seen to fit."""
        return size in self._peaks

    def all(self) -> list[tuple[int, int]]:
        """(size, peak) of each size that fitted. Also for another thread: the dict is copied first."""
        return sorted(self._peaks.copy().items())

    def under(self, limit_bytes: float | None) -> Measured:
        """All that is known of sizes, under a limit."""
        return Measured(self.all(), self._base, limit_bytes)
