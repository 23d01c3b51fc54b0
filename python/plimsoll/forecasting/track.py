"""One series followed at all scales; answers how it grows now, from the past alone."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Callable, NamedTuple

from .growth import FEWEST_POINTS, Growth, steady_growth
from .slopes import Point

# A smaller rise is noise of the readings themselves: this share of the limit, and this much at least.
LEAST_RISE_SHARE = 0.0002
LEAST_RISE_BYTES = 4 * 2**20
# Windows tried on each level, in cells; the longest that is steady wins, so it is tried first.
WINDOW_SIZES = (32, 24, 16, 12)
# A point this many times the usual distance off a line, beside one step, is not on it.
OFFSET_FACTOR = 3
# What has risen by the last quarter of a window, at least, where it rises steadily.
LATE_SHARE = 0.3
# A climb is taken for a repetition until it lasts this much longer than any before it.
REPETITION_FACTOR = 1.5
# The level of 1 s cells: what counts as recent, and as one piece of work.
RECENT_LEVEL = 2
RECENT_SECONDS = 30
# A climb may pass the earlier peaks by this share of the limit, or of their own height, and still be
# a repetition.
REPETITION_SHARE = 0.02
REPETITION_HEIGHT_SHARE = 0.15
# Peaks of so many climbs make an envelope; its pace is that of so many cycles.
FEWEST_CLIMBS = 3
RECENT_CYCLES = 2


# The recent past of a series at every scale at once, in constant memory.

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


# The large swings of a series, and how regularly it reaches new highs.

# A fall counts when it gives back this share of the limit, and this share of what had been climbed:
# smaller ones are the work itself.
FALL_SHARE_OF_LIMIT = 0.1
FALL_SHARE_OF_CLIMB = 0.35
CLIMBS_KEPT = 16
# Gaps between new highs that are remembered.
GAPS_KEPT = 16
# Nothing new for this many times the longest of them is a pause, if it lasts this long at least.
PAUSE_FACTOR = 2.5
LEAST_PAUSE_SECONDS = 1


class Climb(NamedTuple):
    """From a trough to the peak that followed it."""

    trough: Point
    peak: Point


class Cycles:
    """An epoch that gathers and lets go, a cache that is emptied, one job after another.

    A climb like those that came down before is not growth.
    """

    def __init__(self) -> None:
        # Climbs that ended in a fall, oldest first.
        self.climbs: deque[Climb] = deque(maxlen=CLIMBS_KEPT)
        # Where the climb that goes on now began.
        self.trough: Point | None = None
        self._peak = Point(math.nan, math.nan)

    @property
    def trough_seconds(self) -> float:
        return math.nan if self.trough is None else self.trough.seconds

    def add(self, point: Point, limit_bytes: float) -> None:
        if self.trough is None:
            self.trough = self._peak = point
            return
        if point.bytes >= self._peak.bytes:
            self._peak = point
            return
        fall = self._peak.bytes - point.bytes
        climbed = self._peak.bytes - self.trough.bytes
        if fall >= FALL_SHARE_OF_LIMIT * limit_bytes and fall >= FALL_SHARE_OF_CLIMB * climbed:
            if climbed >= FALL_SHARE_OF_LIMIT * limit_bytes:
                self.climbs.append(Climb(self.trough, self._peak))
            self.trough = self._peak = point
        elif point.bytes < self.trough.bytes:
            self.trough = self._peak = point


class Pace:
    """How regularly a series reaches new highs, at the full fineness of its readings."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=GAPS_KEPT)
        self._high: Point | None = None
        self._high_seconds = math.nan

    def add(self, point: Point) -> None:
        if self._high is not None:
            if point.bytes <= self._high.bytes:
                return
            self._gaps.append(point.seconds - self._high.seconds)
        self._high = point
        self._high_seconds = point.seconds

    def restart(self) -> None:
        """The series came down: what it reached before does not count any more."""
        self._gaps.clear()
        self._high = None

    def has_paused(self, now: float) -> bool:
        """Whether it has been without a new high for much longer than it ever was lately."""
        longest = max(self._gaps, default=0.0)
        return now - self._high_seconds > max(LEAST_PAUSE_SECONDS, PAUSE_FACTOR * longest)


class _Known(NamedTuple):
    """What a level answered last: a coarse one changes slowly and is not asked every time."""

    at_seconds: float
    begin: float
    growth: Growth | None


class Track:
    """Follows the peaks of a series, or the floor that work returns to."""

    def __init__(self, floor: bool) -> None:
        self._floor = floor
        self._cells = Cells()
        self._cycles = Cycles()
        self._pace = Pace()
        self._known: dict[int, _Known] = {}
        self._limit_bytes = math.nan
        self._last = Point(math.nan, math.nan)
        self._second = math.nan
        self._lowest = Point(math.nan, math.nan)

    def add(self, seconds: float, value: float, limit_bytes: float) -> None:
        self._limit_bytes = limit_bytes
        self._last = Point(seconds, value)
        self._cells.add(seconds, value)
        if self._floor:
            self._add_floor(self._last)
        else:
            self._add_peak(self._last)

    def _add_peak(self, point: Point) -> None:
        trough = self._cycles.trough_seconds
        self._cycles.add(point, self._limit_bytes)
        if self._cycles.trough_seconds != trough:
            self._pace.restart()
        self._pace.add(point)

    def _add_floor(self, point: Point) -> None:
        """Work itself is a sawtooth; what counts for the floor is where it comes back to each second."""
        second = math.floor(point.seconds)
        if second == self._second and point.bytes >= self._lowest.bytes:
            return
        if second != self._second and not math.isnan(self._second):
            self._cycles.add(self._lowest, self._limit_bytes)
        self._second = second
        self._lowest = point

    def recent_peak(self) -> float:
        """The highest value of the last half minute, or of all the time there is."""
        return self._cells.highest_since(RECENT_LEVEL, self._last.seconds - RECENT_SECONDS)

    def repeats_since(self) -> float | None:
        """When the climb that goes on now began, if it looks like those that came down again."""
        repeats = self._is_repetition(self.envelope())
        return self._cycles.trough_seconds if repeats else None

    def growth(self) -> Growth | None:
        envelope = self.envelope()
        climb = self._climb()
        if climb is None:
            return envelope
        # Coarse cells would see a pause only after several of them.
        if not self._floor and self._pace.has_paused(self._last.seconds):
            return envelope
        return envelope if self._is_repetition(envelope) else climb

    @property
    def _least_rise(self) -> float:
        return max(LEAST_RISE_BYTES, LEAST_RISE_SHARE * self._limit_bytes)

    def _climb(self) -> Growth | None:
        """The longest window, of any scale, over which the current climb is steady."""
        begin = -math.inf if self._floor else self._cycles.trough_seconds
        longest: Growth | None = None
        for level in reversed(range(self._cells.used_levels)):
            # Finer cells do not reach back as far: what they show is a part of it.
            if longest and longest.span >= CELLS_PER_LEVEL * cell_seconds(level):
                break
            known = self._known.get(level)
            if (
                known is None
                or known.begin != begin
                or self._last.seconds - known.at_seconds >= cell_seconds(level)
            ):
                known = _Known(self._last.seconds, begin, self._level_growth(level, begin))
                self._known[level] = known
            if known.growth and (longest is None or known.growth.span > longest.span):
                longest = known.growth
            # Where each cell holds one reading, finer ones hold the same again.
            if self._cells.is_single(level):
                break
        return longest

    def _level_growth(self, level: int, begin: float) -> Growth | None:
        extremes = self._cells.extremes(level, _lowest if self._floor else _highest)
        if not self._may_grow(extremes):
            return None
        points = [point for point in extremes if not point.seconds < begin]
        if len(points) < FEWEST_POINTS:
            return None
        for first in dict.fromkeys(max(0, len(points) - size) for size in WINDOW_SIZES):
            growth = steady_growth(points[first:], self._least_rise)
            if growth is not None:
                return self._extended(growth, points, first)
        return None

    def _may_grow(self, extremes: Sequence[Point]) -> bool:
        """Cheap, and true wherever a window could be steady. Most of the time none is."""
        now = extremes[-1].bytes
        for back in range(FEWEST_POINTS - 1, len(extremes)):
            before = extremes[-1 - back].bytes
            rise = now - before
            if rise < self._least_rise:
                continue
            if extremes[-1 - (back >> 2)].bytes - before >= LATE_SHARE * rise:
                return True
        return False

    def _extended(self, growth: Growth, points: Sequence[Point], begin: int) -> Growth:
        """The same growth from where it really began: as far back as the points lie on its line."""
        tolerance = growth.step_bytes + OFFSET_FACTOR * growth.offset_bytes
        first = begin
        while first > 0:
            before = points[first - 1]
            line = growth.end_bytes - growth.slope * (growth.to_seconds - before.seconds)
            if abs(before.bytes - line) > tolerance:
                break
            first -= 1
        if first == begin:
            return growth
        return steady_growth(points[first:], self._least_rise) or growth

    def envelope(self) -> Growth | None:
        """Growth from one climb to the next: of the peaks, or of the troughs that they start from."""
        climbs, trough = self._cycles.climbs, self._cycles.trough
        if len(climbs) < FEWEST_CLIMBS:
            return None
        # The first trough is where the series began, not one it came back to.
        points = (
            [*(climb.trough for climb in list(climbs)[1:]), *([trough] if trough else [])]
            if self._floor
            else [climb.peak for climb in climbs]
        )
        growth = steady_growth(points, self._least_rise, FEWEST_CLIMBS)
        if growth is None:
            return None
        # Each cycle adds about the same, and the pace of the cycles changes: the last ones count.
        usual = (points[-1].seconds - points[0].seconds) / (len(points) - 1)
        lately = (points[-1].seconds - points[-1 - RECENT_CYCLES].seconds) / RECENT_CYCLES
        pace = usual / lately if lately > 0 else 1.0
        curve = growth.curve._replace(end_slope=growth.curve.end_slope * pace)
        return growth._replace(curve=curve)

    def _is_repetition(self, envelope: Growth | None) -> bool:
        """Whether the current climb still looks like those that came down again."""
        climbs = self._cycles.climbs
        if not climbs:
            return False
        longest = max(climb.peak.seconds - climb.trough.seconds for climb in climbs)
        height = max(climb.peak.bytes - climb.trough.bytes for climb in climbs)
        expected = _expected_peak(climbs, envelope, self._last.seconds)
        lasted = self._last.seconds - self._cycles.trough_seconds
        # Peaks are held against peaks, and floors against floors: work on top of a floor is no climb.
        reached = self._lowest.bytes if self._floor else self._last.bytes
        margin = max(REPETITION_SHARE * self._limit_bytes, REPETITION_HEIGHT_SHARE * height)
        return lasted <= REPETITION_FACTOR * longest and reached <= expected + margin


def _expected_peak(climbs: Sequence[Climb], envelope: Growth | None, now: float) -> float:
    highest = max(climb.peak.bytes for climb in climbs)
    if envelope is None:
        return highest
    last = climbs[-1].peak
    return max(highest, last.bytes + envelope.slope * (now - last.seconds))


def _lowest(cell: Cell) -> Point:
    return cell.min


def _highest(cell: Cell) -> Point:
    return cell.max
