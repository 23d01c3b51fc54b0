import { median, type Points } from './slopes.js';

/** How a growth goes on at its end, with the bend of the whole window taken into account. */
export interface Curve {
  /** Value of the curve at the last point. */
  readonly endBytes: number;
  /** Bytes per second at the last point. */
  readonly endSlope: number;
  /** By which share the slope changes in a second; 0 is a straight line. */
  readonly curvature: number;
  /** What chance alone may add to the curvature or take from it. */
  readonly curvatureNoise: number;
}

/** Makes the median of distances comparable with a standard deviation of normal noise. */
const normalScale = 1.4826;
/** A bend this many times as strong as chance makes it is believed in full, nearly. */
const certainty = 3;

/** The parabola through the points, and how much of its bend chance could have made. */
export interface Bend {
  /** Value at the last point. */
  readonly endBytes: number;
  /** The square term, for time from -1 to 1 over the window: negative slows down. */
  readonly square: number;
  /** The spread that the scatter of the points gives it. */
  readonly spread: number;
}

export function bendOf({ seconds, bytes, begin, end }: Points): Bend {
  const n = end - begin;
  const to = seconds[end - 1] ?? 0;
  const half = (to - (seconds[begin] ?? 0)) / 2;
  // Time runs from -1 to 1 over the window, which keeps the sums well conditioned.
  const x = new Float64Array(n);
  for (let i = 0; i < n; i++) x[i] = ((seconds[begin + i] ?? 0) - to) / half + 1;
  const [a, b, c] = parabola(x, bytes, begin);
  const offsets = x.map((at, i) => Math.abs((bytes[begin + i] ?? 0) - a - b * at - c * at * at));
  // As for evenly spaced points.
  const spread = normalScale * median(offsets) * Math.sqrt(45 / (4 * n));
  return { endBytes: a + b + c, square: c, spread };
}

/**
 * How a bent growth goes on: its slope is taken to keep changing by the same factor as from the
 * first half to the second. Acceleration may wear off: where it was less from the middle third to
 * the last, that counts. What chance could have bent is taken off. `line` is the straight line
 * through the same points.
 */
export function curveOf(
  { endBytes, square, spread }: Bend,
  line: {
    readonly endBytes: number;
    readonly slope: number;
    readonly ratio: number;
    readonly spanSeconds: number;
  },
  [, middle, late]: readonly [early: number, middle: number, late: number],
): Curve {
  const trust = square === 0 ? 0 : Math.max(0, 1 - ((certainty * spread) / square) ** 2);
  const byHalves = Math.log(line.ratio) / (line.spanSeconds / 2);
  const lately = Math.log(late / middle) / (line.spanSeconds / 3);
  const bend = byHalves > 0 ? Math.min(byHalves, lately) : byHalves;
  const curvature = trust * bend;
  const turns = curvature * line.spanSeconds;
  return {
    endBytes: line.endBytes + trust * (endBytes - line.endBytes),
    // The mean slope of a window whose slope changes evenly, carried to its end.
    endSlope: line.slope * (Math.abs(turns) < 1e-9 ? 1 : turns / (1 - Math.exp(-turns))),
    curvature,
    curvatureNoise: square === 0 ? 0 : Math.abs((spread / square) * bend),
  };
}

/** A straight line; that its halves differ by a little is taken for chance. */
export function straightCurve(endBytes: number, slope: number, difference: number): Curve {
  return { endBytes, endSlope: slope, curvature: 0, curvatureNoise: Math.abs(difference) / 2 };
}

/** Least squares for `a + b x + c x^2`. */
function parabola(x: Float64Array, bytes: Float64Array, begin: number): [number, number, number] {
  const n = x.length;
  let s1 = 0;
  let s2 = 0;
  let s3 = 0;
  let s4 = 0;
  let y0 = 0;
  let y1 = 0;
  let y2 = 0;
  for (let i = 0; i < n; i++) {
    const at = x[i] ?? 0;
    const value = bytes[begin + i] ?? 0;
    s1 += at;
    s2 += at * at;
    s3 += at ** 3;
    s4 += at ** 4;
    y0 += value;
    y1 += at * value;
    y2 += at * at * value;
  }
  const determinant = n * (s2 * s4 - s3 * s3) - s1 * (s1 * s4 - s2 * s3) + s2 * (s1 * s3 - s2 * s2);
  if (!(Math.abs(determinant) > 1e-9)) return [y0 / n, 0, 0];
  const a = y0 * (s2 * s4 - s3 * s3) - s1 * (y1 * s4 - y2 * s3) + s2 * (y1 * s3 - y2 * s2);
  const b = n * (y1 * s4 - y2 * s3) - y0 * (s1 * s4 - s2 * s3) + s2 * (s1 * y2 - s2 * y1);
  const c = n * (s2 * y2 - s3 * y1) - s1 * (s1 * y2 - s2 * y1) + y0 * (s1 * s3 - s2 * s2);
  return [a / determinant, b / determinant, c / determinant];
}
