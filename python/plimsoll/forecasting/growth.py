"""Whether points rise steadily up to the last one, and how fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .slopes import Point, line_slope, median, pairwise_slopes, quantile

# Fewer points than this tell no growth from chance.
FEWEST_POINTS = 10
# No single step may carry more of the rise than this: a jump is not growth.
LARGEST_STEP_SHARE = 0.4
# How much of the rise may be lost again on the way.
LARGEST_FALL_SHARE = 0.2
# How far a point may lie off the line: so many times the usual distance, beside one usual step,
# and always this share of the rise.
LARGEST_OFFSET = 4
OFFSET_SHARE = 0.03
# Outside of these the window holds two different things: a rest and a growth.
SLOWEST_RATIO = 0.2
FASTEST_RATIO = 3
# Halves that differ by less than this are a straight line.
STRAIGHT_RATIO = 0.8
# With fewer steps a curve cannot be told from a rest followed by a straight growth.
CURVE_RISES = 12
# Growth has paused when nothing rose for this many times the longest earlier gap.
PAUSE_FACTOR = 2.5


# How a growth goes on at its end, with the bend of the whole window taken into account.

# Makes the median of distances comparable with a standard deviation of normal noise.
NORMAL_SCALE = 1.4826
# A bend this many times as strong as chance makes it is believed in full, nearly.
CERTAINTY = 3


class Curve(NamedTuple):
    # Value of the curve, and bytes per second, at the last point.
    end_bytes: float
    end_slope: float
    # By which share the slope changes in a second; 0 is a straight line.
    curvature: float
    # What chance alone may add to the curvature or take from it.
    curvature_noise: float


class Bend(NamedTuple):
    """The parabola through the points, and how much of its bend chance could have made."""

    end_bytes: float
    # The square term, for time from -1 to 1 over the window: negative slows down.
    square: float
    # The spread that the scatter of the points gives it.
    spread: float


class Line(NamedTuple):
    """The straight line through the same points."""

    end_bytes: float
    slope: float
    ratio: float
    span_seconds: float


def bend_of(points: Sequence[Point]) -> Bend:
    last = points[-1].seconds
    half = (last - points[0].seconds) / 2
    # Time runs from -1 to 1 over the window, which keeps the sums well conditioned.
    times = [(point.seconds - last) / half + 1 for point in points]
    values = [point.bytes for point in points]
    a, b, c = _parabola(times, values)
    offsets = [abs(value - a - b * at - c * at * at) for at, value in zip(times, values)]
    # As for evenly spaced points.
    spread = NORMAL_SCALE * median(offsets) * math.sqrt(45 / (4 * len(points)))
    return Bend(a + b + c, c, spread)


def curve_of(bend: Bend, line: Line, thirds: tuple[float, float, float]) -> Curve:
    """The slope is taken to keep changing by the same factor as from the first half to the second.

    Acceleration may wear off: where it was less from the middle third to the last, that counts. What
    chance could have bent is taken off.
    """
    _, middle, late = thirds
    doubt = CERTAINTY * bend.spread / bend.square if bend.square else math.inf
    trust = max(0.0, 1 - doubt * doubt)
    by_halves = math.log(line.ratio) / (line.span_seconds / 2)
    lately = math.log(late / middle) / (line.span_seconds / 3)
    bent = min(by_halves, lately) if by_halves > 0 else by_halves
    curvature = trust * bent
    turns = curvature * line.span_seconds
    return Curve(
        line.end_bytes + trust * (bend.end_bytes - line.end_bytes),
        # The mean slope of a window whose slope changes evenly, carried to its end.
        line.slope * (1 if abs(turns) < 1e-9 else turns / (1 - math.exp(-turns))),
        curvature,
        abs(bend.spread / bend.square * bent) if bend.square else 0.0,
    )


def straight_curve(end_bytes: float, slope: float, difference: float) -> Curve:
    """A straight line; that its halves differ by a little is taken for chance."""
    return Curve(end_bytes, slope, 0.0, abs(difference) / 2)


def _parabola(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Least squares for `a + b x + c x^2`."""
    n = len(x)
    s1, s2, s3, s4 = (sum(at**power for at in x) for power in (1, 2, 3, 4))
    y0 = sum(y)
    y1 = sum(at * value for at, value in zip(x, y))
    y2 = sum(at * at * value for at, value in zip(x, y))
    whole = n * (s2 * s4 - s3 * s3) - s1 * (s1 * s4 - s2 * s3) + s2 * (s1 * s3 - s2 * s2)
    if not abs(whole) > 1e-9:
        return y0 / n, 0.0, 0.0
    a = y0 * (s2 * s4 - s3 * s3) - s1 * (y1 * s4 - y2 * s3) + s2 * (y1 * s3 - y2 * s2)
    b = n * (y1 * s4 - y2 * s3) - y0 * (s1 * s4 - s2 * s3) + s2 * (s1 * y2 - s2 * y1)
    c = n * (s2 * y2 - s3 * y1) - s1 * (s1 * y2 - s2 * y1) + y0 * (s1 * s3 - s2 * s2)
    return a / whole, b / whole, c / whole


class Growth(NamedTuple):
    """Growth that has kept on, evenly, over the whole of a window that ends now."""

    from_seconds: float
    to_seconds: float
    # Bytes per second: the middle of all pairwise slopes, and their tenth and ninetieth percentiles.
    slope: float
    slope_low: float
    slope_high: float
    # Rise in the second half over rise in the first: 1 is a straight line, more accelerates.
    ratio: float
    # Value of the fitted line at the end.
    end_bytes: float
    curve: Curve
    # The usual single step up.
    step_bytes: float
    rise_bytes: float
    # How far the points usually lie off the line.
    offset_bytes: float

    @property
    def span(self) -> float:
        return self.to_seconds - self.from_seconds

    @property
    def bend(self) -> str:
        if is_straight(self.ratio):
            return "straight"
        return "accelerates" if self.ratio > 1 else "slows"


def steady_growth(
    points: Sequence[Point], least_rise: float, fewest: int = FEWEST_POINTS
) -> Growth | None:
    """In many small steps of which none carries the rise, along a line or a gentle curve, not paused."""
    if len(points) < fewest:
        return None
    rises = _rises(points, least_rise, fewest)
    if rises is None:
        return None
    rise = points[-1].bytes - points[0].bytes
    begin, end = points[0].seconds, points[-1].seconds
    ratio = _ratio(points)
    if not SLOWEST_RATIO <= ratio <= FASTEST_RATIO:
        return None
    bends = len(points) >= FEWEST_POINTS and not is_straight(ratio)
    if bends and len(rises) < CURVE_RISES:
        return None
    thirds = _thirds(points) if bends else None
    if thirds is not None and not _keeps_bending(thirds):
        return None

    slopes = pairwise_slopes(points)
    slope = quantile(slopes, 0.5)
    if not slope > 0:
        return None
    levels = [point.bytes - slope * point.seconds for point in points]
    level = median(levels)
    step = median(rises)
    # The halves of a curve bend off the straight line by up to an eighth of what they differ in.
    sag = abs(ratio - 1) / (ratio + 1) * rise / 4
    offsets = [abs(one - level) for one in levels]
    offset = median(offsets)
    if max(offsets) > LARGEST_OFFSET * offset + OFFSET_SHARE * rise + step + sag:
        return None

    end_bytes = level + slope * end
    return Growth(
        begin,
        end,
        slope,
        quantile(slopes, 0.1),
        quantile(slopes, 0.9),
        ratio,
        end_bytes,
        straight_curve(end_bytes, slope, math.log(ratio) / ((end - begin) / 2))
        if thirds is None
        else curve_of(bend_of(points), Line(end_bytes, slope, ratio, end - begin), thirds),
        step,
        rise,
        offset,
    )


def is_straight(ratio: float) -> bool:
    return STRAIGHT_RATIO <= ratio <= 1 / STRAIGHT_RATIO


def _rises(points: Sequence[Point], least_rise: float, fewest: int) -> list[float] | None:
    """The steps up, unless one of them carries the rise, too much was lost, or it has paused."""
    first = points[0].bytes
    rise = points[-1].bytes - first
    if rise < least_rise:
        return None
    largest_step = max(LARGEST_STEP_SHARE, 2.5 / len(points)) * rise
    largest_fall = LARGEST_FALL_SHARE * rise
    rises = []
    peak = before = first
    rise_seconds, longest_gap = points[0].seconds, 0.0
    for point in points[1:]:
        if point.bytes - before > largest_step or peak - point.bytes > largest_fall:
            return None
        before = point.bytes
        if point.bytes > peak:
            rises.append(point.bytes - peak)
            peak = point.bytes
            longest_gap = max(longest_gap, point.seconds - rise_seconds)
            rise_seconds = point.seconds
    if len(rises) < fewest / 2:
        return None
    paused = points[-1].seconds - rise_seconds > PAUSE_FACTOR * longest_gap
    return None if paused else rises


def _ratio(points: Sequence[Point]) -> float:
    middle = (points[0].seconds + points[-1].seconds) / 2
    half = next(index for index, point in enumerate(points) if not point.seconds < middle)
    on_middle = points[half].seconds == middle
    # With few points a half may hold one alone, which has no slope: then they share the middle one.
    early = line_slope(points[: max(half + on_middle, 2)])
    late = line_slope(points[min(half, len(points) - 2) :])
    return late / early if early > 0 else math.inf


def _thirds(points: Sequence[Point]) -> tuple[float, float, float]:
    third = math.ceil(len(points) / 3)
    early, middle, late = (
        line_slope(points[begin : begin + third + 1]) for begin in (0, third, 2 * third)
    )
    return early, middle, late


def _keeps_bending(thirds: tuple[float, float, float]) -> bool:
    """Whether the slope changed by about the same factor from third to third.

    A start or a rest before a straight growth does not: then a shorter window tells the truth.
    """
    early, middle, late = thirds
    if not (early > 0 and middle > 0 and late > 0):
        return False
    before, lately = middle / early, late / middle
    same_way = (before > 1 and lately > 1) or (before < 1 and lately < 1)
    return same_way and before / lately < 2 and lately / before < 2
