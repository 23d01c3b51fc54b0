/** When the size of a batch follows the memory. Percentages are of the memory there is. */
export interface SizeRule {
  /** The size to begin with, and the largest. */
  readonly largest: number;
  readonly smallest: number;
  readonly shrinkAbovePercent: number;
  readonly growBelowPercent: number;
}

/**
 * The size of the next batch: half above the upper mark, twice below the lower one, else the same.
 *
 * @example
 * nextSize(32, 90, { largest: 32, smallest: 1, shrinkAbovePercent: 85, growBelowPercent: 50 }); // 16
 */
export function nextSize(size: number, usedPercent: number, rule: SizeRule): number {
  if (usedPercent > rule.shrinkAbovePercent) {
    return Math.max(rule.smallest, Math.floor(size / 2));
  }
  if (usedPercent < rule.growBelowPercent) return Math.min(rule.largest, size * 2);
  return size;
}
