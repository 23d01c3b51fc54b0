"""Expects when memory will run out, from the past alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .growth import Growth
from .risk import (
    Outlook,
    SteadyOutlook,
    TimeToLimit,
    confidence_in,
    risk_of_growth,
    time_to_limit,
)
from .track import Track

# Less than this says nothing.
LEAST_SECONDS = 3
# New conclusions are drawn this often in the time of the points, and this often while nothing grows.
CONCLUDE_SECONDS = 0.5
CONCLUDE_CALM_SECONDS = 1
# Growth that began this soon after the first reading may be the program's start.
START_SECONDS = 0.5
# When this share of the limit has come back, what was concluded before is over.
CAME_BACK_SHARE = 0.05
# A smaller rise is not worth a word about its end.
LEAST_RISE_SHARE = 0.002
# Closer to the limit than this, even level memory is a small risk.
NEARLY_FULL_SHARE = 0.95
# From here on there is nothing left to ask for: full, whether or not it grows.
FULL_SHARE = 0.995
# The same for what is live where an allocator reports it: it needs some room of its own.
FULL_LIVE_SHARE = 0.99
# Two rates that differ by less are the same to a person.
EVEN_SHARE = 0.02


class MemoryPoint(NamedTuple):
    """One instant of one pool of memory."""

    seconds: float
    # The most that can be had: the capacity of the device, or the allocator's own cap.
    limit_bytes: int
    held_bytes: int
    # Live bytes inside what is held, where an allocator reports them.
    live_bytes: int | None = None


class _Expected(NamedTuple):
    growth: Growth
    time: TimeToLimit
    subject: str


class Forecaster:
    """Follows what is held, whose peaks rise only when what was cached did not serve, and the floor of
    what is live, which rises under a leak even while the cache still covers it. The sooner counts.

    >>> forecaster = Forecaster()
    >>> forecaster.add(MemoryPoint(0.0, 24 * 2**30, 3 * 2**30))
    >>> forecaster.forecast()["risk"]
    'unknown'
    """

    def __init__(self) -> None:
        self._held = Track(floor=False)
        self._live = Track(floor=True)
        self._steady = SteadyOutlook()
        self._first_seconds = math.nan
        self._concluded: MemoryPoint | None = None
        self._grows = False
        self._outlook = _unknown("Nothing has been read yet.")

    def add(self, point: MemoryPoint) -> None:
        if math.isnan(self._first_seconds):
            self._first_seconds = point.seconds
        self._held.add(point.seconds, point.held_bytes, point.limit_bytes)
        if point.live_bytes is not None:
            self._live.add(point.seconds, point.live_bytes, point.limit_bytes)
        before = self._concluded
        came_back = (
            before is not None
            and before.held_bytes - point.held_bytes >= CAME_BACK_SHARE * point.limit_bytes
        )
        wait = CONCLUDE_SECONDS if self._grows else CONCLUDE_CALM_SECONDS
        if before is not None and not came_back and point.seconds - before.seconds < wait:
            return
        self._concluded = point
        self._outlook = self._conclude(point, came_back)

    def forecast(self) -> dict[str, Any]:
        """As JSON can hold it: `etaSeconds` is seconds, "never" or "unknown"."""
        outlook = self._outlook
        return {
            "risk": outlook.risk,
            "etaSeconds": outlook.eta_seconds,
            "lowSeconds": outlook.low_seconds,
            "highSeconds": outlook.high_seconds,
            "confidence": outlook.confidence,
            "bytesPerSecond": outlook.bytes_per_second,
            "reason": outlook.reason,
            "source": "estimated",
        }

    def _conclude(self, point: MemoryPoint, came_back: bool) -> Outlook:
        seen = point.seconds - self._first_seconds
        fill = _fill(point)
        if seen < LEAST_SECONDS and fill != "full":
            return _unknown(f"Only {seen:.1f} s seen; {LEAST_SECONDS} s are needed.")
        soonest = self._soonest(point)
        self._grows = soonest is not None
        # That nothing is left is a fact, not an expectation: it needs no second look.
        if fill == "full" or (came_back and soonest is None):
            self._steady.reset()
        if soonest is None:
            outlook = _level(fill, seen)
        else:
            from_start = soonest.growth.from_seconds - self._first_seconds < START_SECONDS
            outlook = _growing(soonest, from_start, fill)
        return self._steady.update(outlook, point.seconds)

    def _soonest(self, point: MemoryPoint) -> _Expected | None:
        held, live = self._held_end(point), self._live_end(point)
        if held is None or live is None:
            return held or live
        return live if live.time.seconds < held.time.seconds else held

    def _held_end(self, point: MemoryPoint) -> _Expected | None:
        growth = self._held.growth()
        if growth is None or growth.rise_bytes < LEAST_RISE_SHARE * point.limit_bytes:
            return None
        return _Expected(growth, time_to_limit(growth, point.seconds, point.limit_bytes), "Memory")

    def _live_end(self, point: MemoryPoint) -> _Expected | None:
        """Work peaks above the floor of what is live, and those peaks meet the limit first."""
        growth = None if point.live_bytes is None else self._live.growth()
        if growth is None or growth.rise_bytes < LEAST_RISE_SHARE * point.limit_bytes:
            return None
        # What began with a climb of what is held that repeats will come down with it.
        repeats_since = self._held.repeats_since()
        if repeats_since is not None and growth.from_seconds >= repeats_since - 1:
            return None
        above = max(0.0, self._live.recent_peak() - growth.end_bytes)
        time = time_to_limit(growth, point.seconds, point.limit_bytes - above)
        return _Expected(growth, time, "Live memory")


def _fill(point: MemoryPoint) -> str:
    full = (
        point.held_bytes >= FULL_SHARE * point.limit_bytes
        if point.live_bytes is None
        else point.live_bytes >= FULL_LIVE_SHARE * point.limit_bytes
    )
    if full:
        return "full"
    nearly = point.held_bytes >= NEARLY_FULL_SHARE * point.limit_bytes
    return "nearly-full" if nearly else "room"


def _growing(expected: _Expected, from_start: bool, fill: str) -> Outlook:
    growth, time, subject = expected
    risk, eta, low, high = risk_of_growth(growth, time, from_start, fill)
    rate = math.floor(time.bytes_per_second + 0.5)
    reason = f"{subject} grows by {_mib(rate)} a second, seen for {growth.span:.1f} s{_room(time)}."
    return Outlook(risk, eta, low, high, confidence_in(growth, time), rate, reason)


def _room(time: TimeToLimit) -> str:
    """What is left, and how fast it is taken, as the time of the outlook has it."""
    if not 0 < time.seconds < math.inf:
        return ""
    mean = time.room_bytes / time.seconds
    room = _mib(time.room_bytes)
    if abs(mean - time.bytes_per_second) < EVEN_SHARE * time.bytes_per_second:
        return f"; {room} are left for it"
    return f"; at {_mib(mean)} a second on average it takes the {room} that are left for it"


def _mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def _level(fill: str, seen: float) -> Outlook:
    if fill == "full":
        return Outlook("critical", 0.0, 0.0, 0.0, 0.99, 0, "Memory is full.")
    risk, reason = (
        ("low", "Nearly all memory is taken, but it does not grow.")
        if fill == "nearly-full"
        else ("none", "Memory does not grow steadily.")
    )
    return Outlook(risk, "never", "never", "never", min(0.95, seen / (seen + 10)), 0, reason)


def _unknown(reason: str) -> Outlook:
    return Outlook("unknown", "unknown", "unknown", "unknown", 0.0, "unknown", reason)
