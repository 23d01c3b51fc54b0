/**
 * The size of the largest part when a batch is cut into as few parts as fit, all of nearly the same
 * size: no part is much smaller than the others, so that no lone sample is left for BatchNorm.
 *
 * @example
 * evenPart(9, 8); // 5: parts of 5 and 4
 */
export function evenPart(batch: number, most: number): number {
  if (batch <= 0) return 0;
  return Math.ceil(batch / partsOf(batch, most));
}

/** How many parts of at most this size a batch has. */
export function partsOf(batch: number, most: number): number {
  return Math.ceil(batch / Math.max(1, most));
}
