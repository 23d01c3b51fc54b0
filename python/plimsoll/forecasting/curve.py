"""How a growth goes on at its end, with the bend of the whole window taken into account."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .slopes import Point, median

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
