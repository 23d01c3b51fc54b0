import type { EnvelopePoint } from './growth.js';
import type { Track, TrackGrowth } from './track.js';

/** Work before a growth is looked for in two halves of this length ... */
const halfSeconds = 5;
/** ... that end so long before it, or after: where a growth began is known roughly. */
const maxBeforeSeconds = 8;
const maxAfterSeconds = 3;
/** Work is calm where its floor moves by less than this share of what the growth adds. */
const calmShare = 0.3;
/** The growth must take this share of all there is, and so many times the swing of the work. */
const strongShare = 0.2;
const strongSwings = 2;
/** A growth has stalled when no new floor came for this many times the longest wait before. */
const stallFactor = 1.5;
/** A new floor is one that rose at this share of the usual rate at least. */
const leastPace = 0.2;
/** A load from a disk or a network is uneven: what its seconds add differs by this share of their mean. */
const unevenShare = 0.25;
/** The first seconds of a growth are often steeper: what work needs comes with them. */
const beginSeconds = 2;

/**
 * Whether work went up and came down to the same floor for a while before the growth, which then
 * took much more than the work ever did. A program that runs already is not loading or warming up.
 * Memory that did not move before shows no work: something may be loaded after a rest.
 */
export function followsWork(track: Track, growth: TrackGrowth, limitBytes: number): boolean {
  if (growth.riseBytes < strongShare * limitBytes) return false;
  for (let shift = -maxAfterSeconds; shift <= maxBeforeSeconds; shift++) {
    const to = growth.fromSeconds - shift;
    const early = track.secondsBetween(to - 2 * halfSeconds, to - halfSeconds);
    const late = track.secondsBetween(to - halfSeconds, to);
    if (early.length < halfSeconds - 1 || late.length < halfSeconds - 1) return false;
    const [before, after] = [early, late].map((half) => Math.min(...half.map(({ min }) => min)));
    const moved = Math.abs((after ?? 0) - (before ?? 0));
    // It came down from what it had reached: a growth that has begun does not.
    const swing = Math.max(...early.map(({ max }) => max)) - (after ?? 0);
    const calm = moved <= calmShare * growth.slope * halfSeconds;
    const works = swing > 2 * Math.max(moved, track.leastRise);
    if (calm && works && growth.riseBytes >= strongSwings * swing) return true;
  }
  return false;
}

/** When the floor last rose at a usual pace, the longest wait for that before, and the last second seen. */
function risesOf(
  track: Track,
  growth: TrackGrowth,
): { highSeconds: number; longestWait: number; lastSeconds: number } {
  let high = Number.NEGATIVE_INFINITY;
  let highSeconds = growth.fromSeconds;
  let longestWait = 0;
  let lastSeconds = growth.fromSeconds;
  for (const { min, firstSeconds } of track.secondsBetween(growth.fromSeconds, Infinity)) {
    lastSeconds = firstSeconds;
    if (min <= high + leastPace * growth.slope * (firstSeconds - highSeconds)) continue;
    longestWait = Math.max(longestWait, firstSeconds - highSeconds);
    high = min;
    highSeconds = firstSeconds;
  }
  return { highSeconds, longestWait, lastSeconds };
}

/** Whether the floor has just stopped rising: too lately for the growth to show it. */
export function hasStalled(track: Track, growth: TrackGrowth): boolean {
  const { highSeconds, longestWait, lastSeconds } = risesOf(track, growth);
  return lastSeconds - highSeconds > stallFactor * longestWait;
}

/** When the floor last rose at a usual pace. */
export function lastRiseSeconds(track: Track, growth: TrackGrowth): number {
  return risesOf(track, growth).highSeconds;
}

/** Whether growth that became slower goes on at a new straight rate. How it began does not count. */
export function keepsNewRate(track: Track, growth: TrackGrowth): boolean {
  const points = track
    .secondsBetween(growth.fromSeconds + beginSeconds, Infinity)
    .map(({ min, minSeconds }) => ({ seconds: minSeconds, bytes: min }));
  return slowedOnce(points);
}

/** Whether what each second adds differs much from second to second, as where files are read. */
export function isUneven(track: Track, growth: TrackGrowth): boolean {
  const floors = track
    .secondsBetween(growth.fromSeconds + beginSeconds, Infinity)
    .map(({ min }) => min);
  const added = floors.slice(1).map((floor, i) => floor - (floors[i] ?? floor));
  const mean = added.reduce((sum, one) => sum + one, 0) / added.length;
  const differences = added.reduce((sum, one) => sum + Math.abs(one - mean), 0) / added.length;
  return differences > unevenShare * mean;
}

/** Points that each of the two lines has at least. */
const fewestInLine = 8;
/** Two lines explain the points where they leave less than this share of what a curve leaves. */
const clearlyBetter = 0.5;
/** The later line must rise at this share of the earlier one, or it has nearly levelled off. */
const leastLaterShare = 0.25;
/** Approaches to a plateau that are tried: their time constants, in shares of the window. */
const approaches = [0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5] as const;
/** Growth that becomes slower without a plateau: powers of the time. */
const powers = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] as const;

/** Least squares with any number of columns up to three; answers the coefficients and the rest. */
function leastSquares(
  columns: readonly (readonly number[])[],
  values: readonly number[],
): { coefficients: number[]; rest: number } {
  const k = columns.length;
  const rows = columns.map((a) => [...columns.map((b) => dot(a, b)), dot(a, values)]);
  for (let i = 0; i < k; i++) {
    const pivot = rows[i]?.[i] ?? 0;
    for (let j = 0; j < k; j++) {
      if (j === i || pivot === 0) continue;
      const factor = (rows[j]?.[i] ?? 0) / pivot;
      rows[j] = (rows[j] ?? []).map((value, c) => value - factor * (rows[i]?.[c] ?? 0));
    }
  }
  const coefficients = rows.map((row, i) => (row[k] ?? 0) / (row[i] || Number.NaN));
  const rest = values.reduce((sum, value, r) => {
    const fitted = coefficients.reduce((all, one, c) => all + one * (columns[c]?.[r] ?? 0), 0);
    return sum + (value - fitted) ** 2;
  }, 0);
  return { coefficients, rest };
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
}

/**
 * Whether growth that became slower did so once, from one straight rate to another: then it goes
 * on. What approaches a plateau becomes slower all the time. Both are fitted to the points; the two
 * lines must leave clearly less unexplained than the best curve.
 */
export function slowedOnce(points: readonly EnvelopePoint[]): boolean {
  const n = points.length;
  if (n < 2 * fewestInLine) return false;
  const first = points[0] ?? { seconds: 0, bytes: 0 };
  const span = (points.at(-1)?.seconds ?? 0) - first.seconds;
  const times = points.map((point) => (point.seconds - first.seconds) / span);
  const values = points.map((point) => point.bytes - first.bytes);
  const ones = times.map(() => 1);

  let lines = { coefficients: [0, 0, 0], rest: Number.POSITIVE_INFINITY };
  for (let knee = fewestInLine; knee <= n - fewestInLine; knee++) {
    const at = times[knee] ?? 0;
    const fit = leastSquares([ones, times, times.map((t) => Math.max(0, t - at))], values);
    if (fit.rest < lines.rest) lines = fit;
  }
  const [, early = 0, change = 0] = lines.coefficients;
  if (!(early > 0 && change < 0 && early + change >= leastLaterShare * early)) return false;
  const shapes = [
    ...approaches.map((tau) => times.map((t) => 1 - Math.exp(-t / tau))),
    ...powers.map((power) => times.map((t) => t ** power)),
  ];
  const curve = Math.min(...shapes.map((shape) => leastSquares([ones, shape], values).rest));
  return lines.rest < clearlyBetter * curve;
}
