/**
 * Batches are not told more exactly than 2 %: an estimate is not better than that, and round
 * batches run better than odd ones.
 */
const finest = 50;

/**
 * By how much batches of this size differ: the largest power of two that is at most 2 % of it.
 *
 * @example
 * batchStep(32); // 1
 * batchStep(200); // 4
 */
export function batchStep(batch: number): number {
  return batch < finest * 2 ? 1 : 2 ** Math.floor(Math.log2(batch / finest));
}

/** The largest batch on a step that is not above this one. */
export function stepBelow(batch: number): number {
  const whole = Math.floor(batch);
  return whole - (whole % batchStep(whole));
}

/** The next larger batch on a step. */
export function nextStep(batch: number): number {
  return stepBelow(batch) + batchStep(batch);
}

/** The next smaller batch on a step; 0 below 1. */
export function previousStep(batch: number): number {
  return stepBelow(batch - 1);
}
