/** Points in the order of time, column by column: the many windows that are tried copy none. */
export interface Points {
  readonly seconds: Float64Array;
  readonly bytes: Float64Array;
  readonly begin: number;
  readonly end: number;
}

/** Sorted slopes of the pairs that lie at least a third of the window apart (Theil and Sen's). */
export function pairwiseSlopes({ seconds, bytes, begin, end }: Points): Float64Array {
  const n = end - begin;
  const apart = Math.max(1, Math.floor(n / 3));
  const slopes = new Float64Array(((n - apart) * (n - apart + 1)) / 2);
  let count = 0;
  for (let i = begin; i < end; i++) {
    const at = seconds[i] ?? 0;
    const low = bytes[i] ?? 0;
    for (let j = i + apart; j < end; j++) {
      const apartSeconds = (seconds[j] ?? 0) - at;
      if (apartSeconds > 0) slopes[count++] = ((bytes[j] ?? 0) - low) / apartSeconds;
    }
  }
  // Typed arrays sort by number, natively.
  return slopes.subarray(0, count).toSorted();
}

/** Least-squares slope of the points from `begin` up to `end`. */
function lineSlope({ seconds, bytes }: Points, begin: number, end: number): number {
  let t = 0;
  let y = 0;
  for (let i = begin; i < end; i++) {
    t += seconds[i] ?? 0;
    y += bytes[i] ?? 0;
  }
  t /= end - begin;
  y /= end - begin;
  let up = 0;
  let down = 0;
  for (let i = begin; i < end; i++) {
    const apart = (seconds[i] ?? 0) - t;
    up += apart * ((bytes[i] ?? 0) - y);
    down += apart ** 2;
  }
  return down > 0 ? up / down : 0;
}

export function median(values: ArrayLike<number>): number {
  return quantile(Float64Array.from(values).toSorted(), 0.5);
}

export function quantile(sorted: Float64Array, share: number): number {
  if (sorted.length === 0) return Number.NaN;
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

/** A point of an envelope: the extreme of a cell, at its time. */
export interface EnvelopePoint {
  readonly seconds: number;
  readonly bytes: number;
}

/** Growth that has kept on, evenly, over the whole of a window that ends now. */
export interface Growth {
  readonly fromSeconds: number;
  readonly toSeconds: number;
  /** Bytes per second, the middle of all pairwise slopes. */
  readonly slope: number;
  readonly slopeLow: number;
  readonly slopeHigh: number;
  /** Rise in the second half over rise in the first: 1 is a straight line, more accelerates. */
  readonly ratio: number;
  /** Value of the fitted line at `toSeconds`. */
  readonly endBytes: number;
  /** The same with its bend. */
  readonly curve: Curve;
  /** The usual single step up. */
  readonly stepBytes: number;
  readonly riseBytes: number;
  /** How far the points usually lie off the line. */
  readonly offsetBytes: number;
  /** Whether it becomes slower, and by more than chance. */
  readonly slowsDown: boolean;
  /** Number of steps up: the more there are, the more the shape can be trusted. */
  readonly rises: number;
}

/** Fewer points than this tell no growth from chance. */
export const fewestPoints = 10;

/** No single step may carry more of the rise than this: a jump is not growth. */
const largestStepShare = 0.4;
/** How much of the rise may be lost again on the way. */
const largestDropShare = 0.2;
/** How far a point may lie off the line: so many times the usual distance, beside one usual step. */
const largestOffset = 4;
/** ... and always this share of the rise. */
const offsetShare = 0.03;
/** Outside of these the window holds two different things: a rest and a growth. */
const slowestRatio = 0.2;
const fastestRatio = 3;
/** Halves that differ by less than this are a straight line. */
const straightRatio = 0.8;
/** With fewer steps a curve cannot be told from a rest followed by a straight growth. */
const curveRises = 12;
/** Growth has paused when nothing rose for this many times the longest earlier gap. */
const pauseFactor = 2.5;
/** Growth slows down when its second half rose by less than this share of the first ... */
const slowingRatio = 0.92;
/** ... and its bend is this many times what the scatter of its points could make. */
const slowingSpreads = 4;

/** The same points as columns. */
export function columnsOf(points: readonly EnvelopePoint[]): Points {
  return {
    seconds: Float64Array.from(points, (point) => point.seconds),
    bytes: Float64Array.from(points, (point) => point.bytes),
    begin: 0,
    end: points.length,
  };
}

/**
 * Whether the points rise steadily up to the last one, and how fast. Steadily means: in many small
 * steps of which none carries the rise, along a line (or a gentle curve), not levelling off and not
 * paused. Answers undefined when they do not.
 */
export function steadyGrowth(
  points: Points,
  leastRise: number,
  fewest = fewestPoints,
): Growth | undefined {
  const { seconds, bytes, begin, end } = points;
  const n = end - begin;
  if (n < fewest) return undefined;
  const steps = stepsOf(points, leastRise, fewest);
  if (!steps) return undefined;
  const { rise } = steps;
  const from = seconds[begin] ?? Number.NaN;
  const to = seconds[end - 1] ?? Number.NaN;

  const middle = (from + to) / 2;
  let half = begin;
  while ((seconds[half] ?? to) < middle) half++;
  const onMiddle = seconds[half] === middle ? 1 : 0;
  // With few points a half may hold one alone, which has no slope: then they share the middle one.
  const early = lineSlope(points, begin, Math.max(half + onMiddle, begin + 2));
  const late = lineSlope(points, Math.min(half, end - 2), end);
  const ratio = early > 0 ? late / early : Number.POSITIVE_INFINITY;
  if (!(ratio >= slowestRatio && ratio <= fastestRatio)) return undefined;
  const bends = n >= fewestPoints && !isStraight(ratio);
  if (bends && steps.rises.length < curveRises) return undefined;
  const thirds = bends ? thirdsOf(points) : undefined;
  if (thirds && !keepsBending(thirds)) return undefined;

  const slopes = pairwiseSlopes(points);
  const slope = quantile(slopes, 0.5);
  if (!(slope > 0)) return undefined;
  const levels = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    levels[i] = (bytes[begin + i] ?? 0) - slope * (seconds[begin + i] ?? 0);
  }
  const level = median(levels);
  const stepBytes = median(steps.rises);
  // The halves of a curve bend off the straight line by up to an eighth of what they differ in.
  const sag = ((Math.abs(ratio - 1) / (ratio + 1)) * rise) / 4;
  const offsets = levels.map((one) => Math.abs(one - level));
  const offsetBytes = median(offsets);
  const tolerance = largestOffset * offsetBytes + offsetShare * rise + stepBytes + sag;
  if (offsets.some((offset) => offset > tolerance)) return undefined;

  const endBytes = level + slope * to;
  const bend = bendOf(points);
  return {
    fromSeconds: from,
    toSeconds: to,
    slope,
    slopeLow: quantile(slopes, 0.1),
    slopeHigh: quantile(slopes, 0.9),
    ratio,
    endBytes,
    curve: thirds
      ? curveOf(bend, { endBytes, slope, ratio, spanSeconds: to - from }, thirds)
      : straightCurve(endBytes, slope, Math.log(ratio) / ((to - from) / 2)),
    stepBytes,
    riseBytes: rise,
    offsetBytes,
    slowsDown:
      n >= fewestPoints && ratio < slowingRatio && -bend.square > slowingSpreads * bend.spread,
    rises: steps.rises.length,
  };
}

/** The rise and its steps, unless one of them carries it, too much was lost, or it has paused. */
function stepsOf(
  { seconds, bytes, begin, end }: Points,
  leastRise: number,
  fewest: number,
): { rise: number; rises: number[] } | undefined {
  const first = bytes[begin] ?? 0;
  const rise = (bytes[end - 1] ?? 0) - first;
  if (rise < leastRise) return undefined;
  const largestStep = Math.max(largestStepShare, 2.5 / (end - begin)) * rise;
  const largestDrop = largestDropShare * rise;
  let before = first;
  let peak = first;
  for (let i = begin + 1; i < end; i++) {
    const now = bytes[i] ?? 0;
    if (now - before > largestStep || peak - now > largestDrop) return undefined;
    if (now > peak) peak = now;
    before = now;
  }
  const rises: number[] = [];
  let riseSeconds = seconds[begin] ?? 0;
  let longestGap = 0;
  peak = first;
  for (let i = begin + 1; i < end; i++) {
    const now = bytes[i] ?? 0;
    if (now <= peak) continue;
    rises.push(now - peak);
    peak = now;
    const at = seconds[i] ?? 0;
    longestGap = Math.max(longestGap, at - riseSeconds);
    riseSeconds = at;
  }
  if (rises.length < fewest / 2) return undefined;
  const paused = (seconds[end - 1] ?? 0) - riseSeconds > pauseFactor * longestGap;
  return paused ? undefined : { rise, rises };
}

export function isStraight(ratio: number): boolean {
  return ratio >= straightRatio && ratio <= 1 / straightRatio;
}

function thirdsOf(points: Points): [early: number, middle: number, late: number] {
  const third = Math.ceil((points.end - points.begin) / 3);
  const slopeOf = (k: number): number => {
    const begin = points.begin + k * third;
    return lineSlope(points, begin, Math.min(points.end, begin + third + 1));
  };
  return [slopeOf(0), slopeOf(1), slopeOf(2)];
}

/**
 * Whether the slope changed from the first third to the middle one by about the same factor as from
 * there to the last. A start or a rest before a straight growth does not: then a shorter window
 * tells the truth.
 */
function keepsBending([early, middle, late]: readonly [number, number, number]): boolean {
  if (!(early > 0 && middle > 0 && late > 0)) return false;
  const before = middle / early;
  const lately = late / middle;
  const sameDirection = (before > 1 && lately > 1) || (before < 1 && lately < 1);
  return sameDirection && before / lately < 2 && lately / before < 2;
}

/** How a growth goes on at its end, with the bend of the whole window taken into account. */
interface Curve {
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
interface Bend {
  /** Value at the last point. */
  readonly endBytes: number;
  /** The square term, for time from -1 to 1 over the window: negative slows down. */
  readonly square: number;
  /** The spread that the scatter of the points gives it. */
  readonly spread: number;
}

function bendOf({ seconds, bytes, begin, end }: Points): Bend {
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
function curveOf(
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
function straightCurve(endBytes: number, slope: number, difference: number): Curve {
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
