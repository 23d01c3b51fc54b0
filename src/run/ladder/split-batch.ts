/** A batch as microbatches of equal size. */
export interface SplitBatch {
  readonly microbatch: number;
  readonly accumulation: number;
  /** What they make together, when that is not the batch that was asked for. */
  readonly effective: number;
}

/**
 * The largest microbatch up to `most` that keeps the effective batch: exactly where a divisor lies
 * near, else with as few samples more as can be.
 *
 * @example
 * splitBatch(32, 14); // { microbatch: 8, accumulation: 4, effective: 32 }
 * splitBatch(127, 60); // { microbatch: 43, accumulation: 3, effective: 129 }
 */
export function splitBatch(batch: number, most: number): SplitBatch {
  const limit = Math.max(1, Math.min(batch, Math.floor(most)));
  // Below half of what fits, exactness would cost too much speed.
  for (let microbatch = limit; microbatch * 2 > limit; microbatch--) {
    if (batch % microbatch === 0) {
      return { microbatch, accumulation: batch / microbatch, effective: batch };
    }
  }
  const accumulation = Math.ceil(batch / limit);
  const microbatch = Math.ceil(batch / accumulation);
  return { microbatch, accumulation, effective: microbatch * accumulation };
}
