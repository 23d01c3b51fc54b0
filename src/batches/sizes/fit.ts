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

/** Of one peak at most this share is base: a line must rise, or every size would fit. */
const largestBaseShare = 0.95;

/**
 * The line through what was measured: as steep as from the smallest size to the largest, and no
 * measured peak lies above it. Of several peaks of one size the highest counts. A peak at which
 * memory ran out is only used where nothing better is there: the true one is higher, so the line
 * lies too low there.
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
  const line = throughAll(clean);
  // A line that falls, or starts below 0, says that the sizes did not differ enough to tell.
  if (line !== undefined && line.perSampleBytes > 0 && line.baseBytes >= 0) return line;
  const best = (clean.length > 0 ? clean : highest(observations)).at(-1);
  if (best === undefined) return undefined;
  // Without a base each sample is taken to need more than it does: on the safe side.
  const base = Math.min(baseBytes ?? 0, best.peakBytes * largestBaseShare);
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

/** Of each size its highest peak, from the smallest size to the largest. */
function highest(observations: readonly Observation[]): readonly Observation[] {
  const bySize = new Map<number, Observation>();
  for (const one of observations) {
    if (one.peakBytes > (bySize.get(one.batch)?.peakBytes ?? 0)) bySize.set(one.batch, one);
  }
  return [...bySize.values()].toSorted((a, b) => a.batch - b.batch);
}

function throughAll(points: readonly Observation[]): MemoryLine | undefined {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined || first === last) return undefined;
  const perSampleBytes = (last.peakBytes - first.peakBytes) / (last.batch - first.batch);
  const bases = points.map(({ batch, peakBytes }) => peakBytes - perSampleBytes * batch);
  return { baseBytes: Math.max(...bases), perSampleBytes, from: 'two sizes' };
}
