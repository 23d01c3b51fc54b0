import type { Trend } from '../types.js';

/** With fewer points than this any direction could be chance. */
export const leastTrendPoints = 8;
/**
 * The change along the line must be this many times the scatter around it. For 32 points of
 * independent noise the change strays by 0.6 of the scatter, so chance alone stays below.
 */
const scatterFactor = 2.5;
/** Makes the median of distances comparable with a standard deviation of normal noise. */
const normalScale = 1.4826;

/**
 * The direction of a short series: the median slope between all pairs of points (Theil-Sen), so
 * that a spike does not turn it, counted only when the change it makes over the whole stretch is
 * large against the scatter around it and against `floor`, the least change worth telling. Points
 * that are NaN are left out. Meant for some dozens of points: it looks at every pair.
 *
 * @example
 * trendOf(seconds, bytes, 64 * MiB); // 'increasing'
 */
export function trendOf(
  seconds: ArrayLike<number>,
  values: ArrayLike<number>,
  floor: number,
): Trend {
  const points: { at: number; value: number }[] = [];
  for (let index = 0; index < values.length; index++) {
    const at = seconds[index] ?? Number.NaN;
    const value = values[index] ?? Number.NaN;
    if (!Number.isNaN(value)) points.push({ at, value });
  }
  const first = points[0];
  const last = points.at(-1);
  if (points.length < leastTrendPoints || !first || !last || last.at <= first.at) return 'unknown';
  const slope = median(slopesOf(points));
  const level = median(Float64Array.from(points, ({ at, value }) => value - slope * at));
  const scatter =
    normalScale *
    median(Float64Array.from(points, ({ at, value }) => Math.abs(value - level - slope * at)));
  const change = slope * (last.at - first.at);
  if (Math.abs(change) <= Math.max(floor, scatterFactor * scatter)) return 'stable';
  return change > 0 ? 'increasing' : 'decreasing';
}

/** Of every pair of points. */
function slopesOf(
  points: readonly { readonly at: number; readonly value: number }[],
): Float64Array {
  const slopes = new Float64Array((points.length * (points.length - 1)) / 2);
  let filled = 0;
  for (const [index, a] of points.entries()) {
    for (let later = index + 1; later < points.length; later++) {
      const b = points[later] ?? a;
      slopes[filled++] = (b.value - a.value) / (b.at - a.at);
    }
  }
  return slopes;
}

/** Numbers alone sort many times faster than with a comparison. */
function median(values: Float64Array): number {
  const sorted = values.toSorted();
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}
