"""The large swings of a series, and how regularly it reaches new highs."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from .slopes import Point

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
