import { median } from '../watch/diagnosis/slopes.js';

/** When the size of a batch follows the memory. Percentages are of the memory there is. */
export interface SizeRule {
  /** The size to begin with, and the largest. */
  readonly largest: number;
  readonly smallest: number;
  readonly shrinkAbovePercent: number;
  readonly growBelowPercent: number;
}

/** Looks at the memory by which its rise is told. */
export const looksKept = 4;

/** Memory that will be above the mark within so many looks counts as above it. */
const looksAhead = 2;

/**
 * The size of the next batch: half above the upper mark, or where memory rises to it; twice below
 * the lower one, where twice the batch stays below the upper one; else the same.
 *
 * `usedPercents` are the highest of each look since this size was taken, the newest last, and
 * `restingPercent` what is in use between batches, where that is known.
 *
 * @example
 * const rule = { largest: 32, smallest: 1, shrinkAbovePercent: 85, growBelowPercent: 50 };
 * nextSize(32, [90], rule); // 16
 * nextSize(32, [62, 68, 74, 80], rule); // 16
 */
export function nextSize(
  size: number,
  usedPercents: readonly number[],
  rule: SizeRule,
  restingPercent?: number,
): number {
  const used = usedPercents.at(-1);
  if (used === undefined) return size;
  if (used + looksAhead * rise(usedPercents) > rule.shrinkAbovePercent) {
    return Math.max(rule.smallest, Math.floor(size / 2));
  }
  const twice = used + Math.max(0, used - (restingPercent ?? used));
  if (used < rule.growBelowPercent && twice <= rule.shrinkAbovePercent) {
    return Math.min(rule.largest, size * 2);
  }
  return size;
}

/** Percent a look, in the middle of the last ones; what rises once is no trend. */
function rise(usedPercents: readonly number[]): number {
  const last = usedPercents.slice(-looksKept);
  if (last.length < looksKept) return 0;
  return Math.max(0, median(last.slice(1).map((used, index) => used - (last[index] ?? used))));
}
