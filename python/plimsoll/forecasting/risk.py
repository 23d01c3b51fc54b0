"""The risk and the expected time, decided in one place so that they cannot contradict each other."""

from __future__ import annotations

import math
from typing import NamedTuple, Union

from .growth import Growth

RISKS = ("none", "low", "medium", "high", "critical")
# What `high` and `critical` mean is a contract: out of memory within so many seconds.
RISK_WITHIN_SECONDS = (("critical", 15.0), ("high", 60.0), ("medium", 300.0), ("low", math.inf))
# 10 s of observed growth support a forecast of 20 s; where it accelerates, of 10 s; where it slows down, of 7 s.
REACH = {"straight": 2.0, "accelerates": 1.0, "slows": 0.7}
# A shorter growth is a start or a single piece of work, however steep.
LEAST_SEEN_SECONDS = 3.5
# Growth from the first reading on may be the program's start: it must last longer.
START_FACTOR = 2
# Bounds allow for a bend of so many times what chance makes.
NOISE_FACTOR = 2
# A risk falls only when the lower one has lasted this long, and rises only when it was seen this long.
CALM_SECONDS = 3
CONFIRM_SECONDS = 0.5

# Seconds; or "never": no out-of-memory expected; or "unknown".
Seconds = Union[float, str]


class TimeToLimit(NamedTuple):
    """Seconds from now until the growth reaches the limit, with bounds; infinite means never."""

    seconds: float
    low: float
    high: float
    # What the growth has left to take now, and how fast it takes it now.
    room_bytes: float
    bytes_per_second: float


class Outlook(NamedTuple):
    risk: str
    eta_seconds: Seconds
    low_seconds: Seconds
    high_seconds: Seconds
    confidence: float
    bytes_per_second: Seconds
    reason: str


def time_to_limit(growth: Growth, now: float, limit_bytes: float) -> TimeToLimit:
    """A straight line where the window is straight; else a slope that keeps changing by one factor."""
    curve = growth.curve
    gap = limit_bytes - curve.end_bytes
    passed = now - growth.to_seconds

    def at(slope: float, curvature: float, room: float) -> float:
        return max(0.0, _reach(slope, curvature, room) - passed)

    seconds = at(curve.end_slope, curve.curvature, gap)
    # Far beyond the window the slope itself may change: widen with the distance.
    doubt = 1.25 + 0.1 * min(3, seconds / growth.span)
    steepest = curve.end_slope * growth.slope_high * doubt / growth.slope
    flattest = curve.end_slope * growth.slope_low / doubt / growth.slope
    noise = NOISE_FACTOR * curve.curvature_noise
    low = at(steepest, curve.curvature + noise, gap - growth.step_bytes)
    high = at(flattest, curve.curvature - noise, gap + growth.step_bytes)
    slope_now = curve.end_slope * math.exp(curve.curvature * passed)
    straight = abs(curve.curvature) < _LEAST_CURVATURE
    taken = (
        curve.end_slope * passed if straight else (slope_now - curve.end_slope) / curve.curvature
    )
    rate = slope_now if slope_now > 0 else growth.slope
    return TimeToLimit(seconds, min(seconds, low), max(seconds, high), max(0.0, gap - taken), rate)


# Less is a straight line.
_LEAST_CURVATURE = 1e-9


def _reach(slope: float, curvature: float, gap: float) -> float:
    """When the integral of slope x e^(curvature t) reaches the gap."""
    if gap <= 0:
        return 0.0
    if slope <= 0:
        return math.inf
    if abs(curvature) < _LEAST_CURVATURE:
        return gap / slope
    inside = 1 + curvature * gap / slope
    return math.log(inside) / curvature if inside > 0 else math.inf


def risk_of_growth(
    growth: Growth, time: TimeToLimit, from_start: bool, fill: str
) -> tuple[str, Seconds, Seconds, Seconds]:
    """A time is told only where the risk says that it is believed."""
    if fill == "full":
        return "critical", 0.0, 0.0, 0.0
    if time.seconds == math.inf:
        low = seconds_or_never(time.low) if fill == "nearly-full" else "never"
        return "low" if fill == "nearly-full" else "none", "never", low, "never"
    risk = next(name for name, within in RISK_WITHIN_SECONDS if time.seconds <= within)
    low, high = seconds_or_never(time.low), seconds_or_never(time.high)
    least = LEAST_SEEN_SECONDS * (START_FACTOR if from_start else 1)
    believed = growth.span >= least and time.seconds <= growth.span * REACH[growth.bend]
    if not believed:
        return "medium" if is_at_least(risk, "high") else "low", "unknown", low, high
    return risk, seconds_or_never(time.seconds), low, high


def confidence_in(growth: Growth, time: TimeToLimit) -> float:
    """Narrow bounds, a long look and a short way ahead make for confidence."""
    ahead = time.seconds if math.isfinite(time.seconds) else 10 * growth.span
    width = (time.high - time.low) / max(ahead, 1) if math.isfinite(time.high) else 2
    value = growth.span / (growth.span + ahead / 4) / (1 + width / 2)
    return _rounded(min(0.99, value), 100)


def seconds_or_never(seconds: float) -> Seconds:
    return _rounded(seconds, 1000) if math.isfinite(seconds) else "never"


def _rounded(value: float, parts: int) -> float:
    """To the nearest part, halves up."""
    return math.floor(value * parts + 0.5) / parts


def is_at_least(risk: str, least: str) -> bool:
    return risk != "unknown" and RISKS.index(risk) >= RISKS.index(least)


class SteadyOutlook:
    """Keeps the risk from flickering: it rises when confirmed and falls when calm has lasted.

    Until then the outlook before is shown, whole, so that its time still belongs to its risk.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """What was seen does not count any more."""
        self._shown: Outlook | None = None
        self._higher_since = math.nan
        self._lower_since = math.nan

    def update(self, outlook: Outlook, seconds: float) -> Outlook:
        shown = self._shown
        change = _rank(outlook) - _rank(shown) if shown else 0
        self._higher_since = _first(self._higher_since, seconds) if change > 0 else math.nan
        self._lower_since = _first(self._lower_since, seconds) if change < 0 else math.nan
        confirmed = seconds - self._higher_since >= CONFIRM_SECONDS
        calm = seconds - self._lower_since >= CALM_SECONDS
        if shown is not None and change != 0 and not confirmed and not calm:
            return shown
        self.reset()
        self._shown = outlook
        return outlook


def _rank(outlook: Outlook) -> int:
    return 0 if outlook.risk == "unknown" else RISKS.index(outlook.risk)


def _first(since: float, seconds: float) -> float:
    return seconds if math.isnan(since) else since
