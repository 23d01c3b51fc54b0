"""Decides how large a microbatch may be, from what was measured: peak = a + b x microbatch."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

LOAD_LINE = 0.9
# Enough to draw a line; a job that sees many sizes keeps the newest.
MOST_SIZES = 16
LONGEST_WAIT = 4096


class PeakLine:
    """Peaks by the size of a microbatch, and the line through them."""

    def __init__(self) -> None:
        self._peaks: Dict[int, int] = {}
        self._base: Optional[int] = None

    def rests_at(self, used_bytes: int) -> None:
        """What is held between steps: the line's value at size 0, and never above it."""
        self._base = used_bytes if self._base is None else max(self._base, used_bytes)

    def measured(self, size: int, peak_bytes: int) -> None:
        highest = max(peak_bytes, self._peaks.pop(size, 0))
        self._peaks[size] = highest
        while len(self._peaks) > MOST_SIZES:
            del self._peaks[next(iter(self._peaks))]

    def __contains__(self, size: int) -> bool:
        """Whether a microbatch of this size was seen to fit."""
        return size in self._peaks

    def peaks(self) -> List[Tuple[int, int]]:
        """(size, peak) of each size that fitted. Also for another thread: the dict is copied first."""
        return sorted(self._peaks.copy().items())

    def line(self) -> Optional[Tuple[float, float]]:
        """(a, b) in bytes: no measured peak lies above it; None while one point is all there is."""
        points = sorted(self._peaks.items())
        if len(points) == 1 and self._base is not None:
            points.insert(0, (0, min(self._base, points[0][1])))
        if len(points) < 2:
            return None
        (small, low), (large, high) = points[0], points[-1]
        slope = max(0.0, (high - low) / (large - small))
        return max(peak - slope * size for size, peak in points), slope

    def largest_under(self, limit_bytes: float) -> Optional[int]:
        """The largest size whose peak stays under a limit; None when that cannot be told."""
        line = self.line()
        if line is None or line[1] <= 0:
            return None
        return max(0, int((limit_bytes - line[0]) // line[1]))


def smaller(failed: int, line: PeakLine, limit_bytes: float) -> int:
    """The size to try after one that failed: what was measured to fit, else half.

    >>> smaller(32, PeakLine(), 8e9)
    16
    """
    fits = line.largest_under(limit_bytes)
    if fits is not None and 0 < fits < failed:
        return fits
    return max(1, failed // 2)


class Growth:
    """When a microbatch may grow back, and to what. A growth that fails makes the next wait longer."""

    def __init__(self, after: int) -> None:
        self.after = after
        self._wait = after
        self._clean = 0
        self._ceiling: Optional[int] = None
        self._grown = False

    def failed(self, size: int) -> None:
        if self._grown:
            self._wait = min(LONGEST_WAIT, self._wait * 2)
            self._ceiling = size
        self._clean = 0
        self._grown = False

    def clean_step(self, size: int, batch: int, line: PeakLine, limit_bytes: float) -> Optional[int]:
        """The size to grow to after this clean step, or None to stay."""
        return self.grow(size, batch, line, limit_bytes) if self.is_due(size, batch) else None

    def is_due(self, size: int, batch: int) -> bool:
        """Counts one clean step; whether enough of them were made. It costs nothing."""
        self._clean += 1
        return size < batch and self._clean >= self._wait

    def grow(self, size: int, batch: int, line: PeakLine, limit_bytes: float) -> Optional[int]:
        self._clean = 0
        fits = line.largest_under(limit_bytes)
        # At most twice: the line was measured at smaller sizes. Where it tells nothing (flat peaks), twice.
        target = min(batch, size * 2, size * 2 if fits is None else fits)
        if self._ceiling is not None and target >= self._ceiling:
            # An earlier growth failed there: go between first, and come back to it after a longer wait.
            target = (size + self._ceiling) // 2
            self._ceiling = None
        if target <= size:
            return None
        self._grown = True
        return target
