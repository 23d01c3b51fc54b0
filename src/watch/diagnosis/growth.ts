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
  /** The usual single step up. */
  readonly stepBytes: number;
  readonly riseBytes: number;
  /** How far the points usually lie off the line. */
  readonly offsetBytes: number;
  /** Number of steps up: the more there are, the more the shape can be trusted. */
  readonly rises: number;
}

/** Fewer points than this tell no growth from chance. */
export const fewestPoints = 10;

/** No single step may carry more of the rise than this: a jump is not growth. */
const largestStepShare = 0.4;
/** How much of the rise may be lost again on the way. */
const largestFallShare = 0.2;
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

/**
 * Whether the points rise steadily up to the last one, and how fast. Steadily means: in many small
 * steps of which none carries the rise, along a line (or a gentle curve), not levelling off and not
 * paused. Answers undefined when they do not.
 */
export function steadyGrowth(
  points: readonly EnvelopePoint[],
  leastRise: number,
  fewest = fewestPoints,
): Growth | undefined {
  const first = points[0];
  const last = points.at(-1);
  const n = points.length;
  if (!first || !last || n < fewest || last.bytes - first.bytes < leastRise) return undefined;
  const rise = last.bytes - first.bytes;

  const stepShare = Math.max(largestStepShare, 2.5 / n);
  const rises: number[] = [];
  let peak = first.bytes;
  let lastRiseSeconds = first.seconds;
  let longestGap = 0;
  for (let i = 1; i < n; i++) {
    const point = points[i] ?? last;
    const step = point.bytes - (points[i - 1] ?? first).bytes;
    if (step > stepShare * rise) return undefined;
    if (peak - point.bytes > largestFallShare * rise) return undefined;
    if (point.bytes > peak) {
      rises.push(point.bytes - peak);
      peak = point.bytes;
      longestGap = Math.max(longestGap, point.seconds - lastRiseSeconds);
      lastRiseSeconds = point.seconds;
    }
  }
  if (rises.length < fewest / 2) return undefined;
  if (last.seconds - lastRiseSeconds > pauseFactor * longestGap) return undefined;

  const middle = (first.seconds + last.seconds) / 2;
  const early = lineSlope(points.filter((point) => point.seconds <= middle));
  const late = lineSlope(points.filter((point) => point.seconds >= middle));
  const ratio = early > 0 ? late / early : Number.POSITIVE_INFINITY;
  if (!(ratio >= slowestRatio && ratio <= fastestRatio)) return undefined;
  if (n >= fewestPoints && !isStraight(ratio)) {
    if (rises.length < curveRises || !keepsBending(points)) return undefined;
  }

  const slopes = pairwiseSlopes(points);
  const slope = quantile(slopes, 0.5);
  if (!(slope > 0)) return undefined;
  const level = median(points.map((point) => point.bytes - slope * point.seconds));
  const stepBytes = median(rises);
  // The halves of a curve bend off the straight line by up to an eighth of what they differ in.
  const bend = ((Math.abs(ratio - 1) / (ratio + 1)) * rise) / 4;
  const offsets = points.map((point) => Math.abs(point.bytes - level - slope * point.seconds));
  const offsetBytes = median(offsets);
  const tolerance = largestOffset * offsetBytes + offsetShare * rise + stepBytes + bend;
  if (offsets.some((offset) => offset > tolerance)) return undefined;

  return {
    fromSeconds: first.seconds,
    toSeconds: last.seconds,
    slope,
    slopeLow: quantile(slopes, 0.1),
    slopeHigh: quantile(slopes, 0.9),
    ratio,
    endBytes: level + slope * last.seconds,
    stepBytes,
    riseBytes: rise,
    offsetBytes,
    rises: rises.length,
  };
}

export function isStraight(ratio: number): boolean {
  return ratio >= straightRatio && ratio <= 1 / straightRatio;
}

/**
 * Whether the slope changed from the first third to the middle one by about the same factor as from
 * there to the last. A start or a rest before a straight growth does not: then a shorter window
 * tells the truth.
 */
function keepsBending(points: readonly EnvelopePoint[]): boolean {
  const third = Math.ceil(points.length / 3);
  const [early, middle, late] = [0, 1, 2].map((k) =>
    lineSlope(points.slice(k * third, (k + 1) * third + 1)),
  );
  if (!early || !middle || !late || early <= 0 || middle <= 0 || late <= 0) return false;
  const before = middle / early;
  const lately = late / middle;
  const sameWay = (before > 1 && lately > 1) || (before < 1 && lately < 1);
  return sameWay && before / lately < 2 && lately / before < 2;
}

/** Sorted slopes of the pairs that lie at least a third of the window apart (Theil and Sen's). */
function pairwiseSlopes(points: readonly EnvelopePoint[]): Float64Array {
  const n = points.length;
  const apart = Math.max(1, Math.floor(n / 3));
  const slopes = new Float64Array(((n - apart) * (n - apart + 1)) / 2);
  let count = 0;
  for (let i = 0; i < n; i++) {
    for (let j = i + apart; j < n; j++) {
      const a = points[i];
      const b = points[j];
      if (a && b && b.seconds > a.seconds) {
        slopes[count++] = (b.bytes - a.bytes) / (b.seconds - a.seconds);
      }
    }
  }
  // Typed arrays sort by number, natively.
  return slopes.subarray(0, count).toSorted();
}

/** Least-squares slope. */
function lineSlope(points: readonly EnvelopePoint[]): number {
  let t = 0;
  let y = 0;
  for (const point of points) {
    t += point.seconds;
    y += point.bytes;
  }
  t /= points.length;
  y /= points.length;
  let up = 0;
  let down = 0;
  for (const point of points) {
    up += (point.seconds - t) * (point.bytes - y);
    down += (point.seconds - t) ** 2;
  }
  return down > 0 ? up / down : 0;
}

export function median(values: readonly number[]): number {
  return quantile(Float64Array.from(values).toSorted(), 0.5);
}

function quantile(sorted: Float64Array, share: number): number {
  if (sorted.length === 0) return Number.NaN;
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}
