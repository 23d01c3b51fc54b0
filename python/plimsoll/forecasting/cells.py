"""The recent past of a series at every scale at once, in constant memory."""

from __future__ import annotations

from collections import deque
from typing import Callable

from .slopes import Point

# Width of the finest cells: at 10 Hz a few readings fall into each.
FINEST_SECONDS = 0.25
# Each level is twice as coarse as the one below; 16 of them reach back three days.
LEVELS = 16
# Cells kept on each level. Enough for a slope and its spread, few enough to stay cheap.
CELLS_PER_LEVEL = 32


class Cell:
    """Extremes of a series within one stretch of time, with the times at which they were seen."""

    __slots__ = ("first_seconds", "index", "last_seconds", "max", "min")

    def __init__(self, index: int, point: Point) -> None:
        self.index = index
        self.first_seconds = self.last_seconds = point.seconds
        self.min = self.max = point

    def add(self, point: Point) -> None:
        self.last_seconds = point.seconds
        if point.bytes < self.min.bytes:
            self.min = point
        if point.bytes >= self.max.bytes:
            self.max = point


Edge = Callable[[Cell], Point]


class Cells:
    """Level k holds the last 32 cells of 0.25 x 2^k seconds.

    A late, fast growth shows on the fine levels, a slow leak on the coarse ones, and on a level whose
    cells are longer than a work cycle the cell maxima are the upper envelope of the sawtooth.
    """

    def __init__(self) -> None:
        self._levels: list[deque[Cell]] = [deque(maxlen=CELLS_PER_LEVEL) for _ in range(LEVELS)]

    def add(self, seconds: float, value: float) -> None:
        point = Point(seconds, value)
        for level, cells in enumerate(self._levels):
            index = int(seconds // cell_seconds(level))
            if cells and cells[-1].index == index:
                cells[-1].add(point)
            else:
                cells.append(Cell(index, point))

    @property
    def used_levels(self) -> int:
        """Levels worth looking at: those with more than one cell."""
        return next((n for n, cells in enumerate(self._levels) if len(cells) < 2), LEVELS)

    def is_single(self, level: int) -> bool:
        """Whether the last finished cell of a level holds one reading only."""
        cells = self._levels[level]
        return len(cells) > 1 and cells[-2].first_seconds == cells[-2].last_seconds

    def extremes(self, level: int, edge: Edge) -> list[Point]:
        """Of the cells of a level, oldest first; the last one is still filling."""
        return [edge(cell) for cell in self._levels[level]]

    def highest_since(self, level: int, seconds: float) -> float:
        recent = (cell for cell in self._levels[level] if cell.last_seconds >= seconds)
        return max((cell.max.bytes for cell in recent), default=0.0)


def cell_seconds(level: int) -> float:
    """Width of the cells of a level."""
    return FINEST_SECONDS * 2**level
