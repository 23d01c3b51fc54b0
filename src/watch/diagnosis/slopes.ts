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
export function lineSlope({ seconds, bytes }: Points, begin: number, end: number): number {
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
