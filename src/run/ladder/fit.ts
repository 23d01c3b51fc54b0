/** What was measured of one size of batch. */
export interface Observation {
  readonly batch: number;
  readonly peakBytes: number;
  /** It ran out at this peak, so the true need is higher. */
  readonly isAtLeast: boolean;
}

/** Memory as a line over the batch: peak = base + perSample x batch. */
export interface MemoryLine {
  readonly baseBytes: number;
  readonly perSampleBytes: number;
  readonly from: 'two sizes' | 'one size' | 'one size and the base';
}

/**
 * The line through what was measured. Of several peaks of one size the highest counts. A peak at
 * which memory ran out is only used where nothing better is there: the true one is higher, so the
 * line lies too low there.
 *
 * @example
 * fitMemory([{ batch: 8, peakBytes: 900, isAtLeast: false }, { batch: 4, peakBytes: 500, isAtLeast: false }]);
 * // { baseBytes: 100, perSampleBytes: 100, from: 'two sizes' }
 */
export function fitMemory(
  observations: readonly Observation[],
  baseBytes?: number,
): MemoryLine | undefined {
  const clean = highest(observations.filter(({ isAtLeast }) => !isAtLeast));
  const line = clean.length >= 2 ? leastSquares(clean) : undefined;
  // A line that falls says that the sizes did not differ enough to tell.
  if (line !== undefined && line.perSampleBytes > 0 && line.baseBytes >= 0) return line;
  const [best] = (clean.length > 0 ? clean : highest(observations)).toSorted(
    (a, b) => b.batch - a.batch,
  );
  if (best === undefined) return undefined;
  // Without a base each sample is taken to need more than it does: on the safe side.
  const base = Math.min(baseBytes ?? 0, best.peakBytes * 0.95);
  return {
    baseBytes: base,
    perSampleBytes: (best.peakBytes - base) / best.batch,
    from: baseBytes === undefined ? 'one size' : 'one size and the base',
  };
}

/** The most samples whose peak stays within a budget; 0 where not even one does. */
export function fittingBatch(line: MemoryLine, budgetBytes: number): number {
  return Math.max(0, Math.floor((budgetBytes - line.baseBytes) / line.perSampleBytes));
}

function highest(observations: readonly Observation[]): readonly Observation[] {
  const bySize = new Map<number, Observation>();
  for (const one of observations) {
    if (one.peakBytes > (bySize.get(one.batch)?.peakBytes ?? 0)) bySize.set(one.batch, one);
  }
  return [...bySize.values()];
}

function leastSquares(points: readonly Observation[]): MemoryLine {
  const n = points.length;
  const meanX = points.reduce((sum, { batch }) => sum + batch, 0) / n;
  const meanY = points.reduce((sum, { peakBytes }) => sum + peakBytes, 0) / n;
  const spread = points.reduce((sum, { batch }) => sum + (batch - meanX) ** 2, 0);
  const together = points.reduce(
    (sum, { batch, peakBytes }) => sum + (batch - meanX) * (peakBytes - meanY),
    0,
  );
  const perSampleBytes = together / spread;
  return { baseBytes: meanY - perSampleBytes * meanX, perSampleBytes, from: 'two sizes' };
}
