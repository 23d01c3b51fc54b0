import { type Ranks, ranksOf } from './parallel.js';
import type { Estimate, Part, PartBytes, Workload } from './types.js';

/** The need of one rank for a number of ranks. */
export interface RankPoint extends Pick<Estimate, 'peak' | 'interval'> {
  readonly ranks: Ranks;
  /** False: between two counts that were traced, where a third lies on the line through them. */
  readonly traced: boolean;
  /** As in an estimate, without modules. */
  readonly breakdown: readonly PartBytes[];
}

/** A traced count may lie this far from the line through its neighbours, as a share of it. */
const nearShare = 0.01;

/**
 * Counts from the first to the last, each twice the one before; the last is always one of them.
 *
 * @example
 * doubledCounts(2, 24); // [2, 4, 8, 16, 24]
 */
export function doubledCounts(first: number, last: number): readonly number[] {
  const counts: number[] = [];
  for (let count = first; count < last; count *= 2) counts.push(count);
  return [...counts, last];
}

/**
 * Estimates the memory of a rank for each number of ranks. Shared parts fall with 1/ranks and the
 * rest stays, so that the peak is the highest of some lines over 1/ranks: a count that lies on the
 * line through its neighbours proves all counts between them. More counts are traced only if it
 * does not.
 *
 * @example
 * const points = await overRanks([2, 4, 8], workload, (one) => estimate({ source, workload: one, gpu, method }));
 * points[0]?.peak.deviceBytes;
 */
export async function overRanks(
  counts: readonly number[],
  workload: Workload,
  estimateOf: (workload: Workload) => Promise<Estimate>,
): Promise<readonly RankPoint[]> {
  const { parallel } = workload;
  if (parallel === undefined) return [];
  const found = new Map<number, RankPoint>();
  const ranks = (gpus: number) => ranksOf({ ...parallel, gpus });
  const trace = async (gpus: number): Promise<RankPoint> => {
    const one = await estimateOf({ ...workload, parallel: { ...parallel, gpus } });
    const breakdown = one.breakdown.map(({ part, bytes }) => ({ part, bytes }));
    const { peak, interval } = one;
    const point = { ranks: ranks(gpus), traced: true, peak, interval, breakdown };
    found.set(gpus, point);
    return point;
  };
  const fill = async (low: RankPoint, high: RankPoint): Promise<void> => {
    const inside = counts.filter((one) => one > low.ranks.count && one < high.ranks.count);
    if (inside.length === 0) return;
    const gpus = middle(inside, low, high);
    const traced = await trace(gpus);
    if (isNear(between(low, high, ranks(gpus)), traced)) {
      for (const one of inside.filter((count) => count !== gpus)) {
        const [from, to] = one < gpus ? [low, traced] : [traced, high];
        found.set(one, between(from, to, ranks(one)));
      }
      return;
    }
    await fill(low, traced);
    await fill(traced, high);
  };
  const [first = 0, last = first] = [counts[0], counts.at(-1)];
  const low = await trace(first);
  if (last > first) await fill(low, await trace(last));
  return counts.flatMap((count) => found.get(count) ?? []);
}

/** The count in the middle over 1/ranks: there a bend shows the most. */
function middle(inside: readonly number[], low: RankPoint, high: RankPoint): number {
  const wanted = (1 / low.ranks.count + 1 / high.ranks.count) / 2;
  const distance = (count: number) => Math.abs(1 / count - wanted);
  return inside.toSorted((a, b) => distance(a) - distance(b))[0] ?? low.ranks.count;
}

function between(low: RankPoint, high: RankPoint, ranks: Ranks): RankPoint {
  const [x, from, to] = [1 / ranks.count, 1 / low.ranks.count, 1 / high.ranks.count];
  const share = (x - to) / (from - to);
  const mix = (a: number, b: number) => Math.round(b + (a - b) * share);
  const partsOf = (point: RankPoint) =>
    new Map(point.breakdown.map(({ part, bytes }) => [part, bytes]));
  const [lows, highs] = [partsOf(low), partsOf(high)];
  const names: readonly Part[] = [...new Set([...lows.keys(), ...highs.keys()])];
  const breakdown = names.map((part) => ({
    part,
    bytes: mix(lows.get(part) ?? 0, highs.get(part) ?? 0),
  }));
  return {
    ranks,
    traced: false,
    peak: {
      allocatedBytes: mix(low.peak.allocatedBytes, high.peak.allocatedBytes),
      reservedBytes: mix(low.peak.reservedBytes, high.peak.reservedBytes),
      // The parts add up to it.
      deviceBytes: breakdown.reduce((sum, { bytes }) => sum + bytes, 0),
      leastCapacityBytes: mix(low.peak.leastCapacityBytes, high.peak.leastCapacityBytes),
    },
    interval: {
      lowBytes: mix(low.interval.lowBytes, high.interval.lowBytes),
      highBytes: mix(low.interval.highBytes, high.interval.highBytes),
      confidence: low.interval.confidence,
    },
    breakdown,
  };
}

function isNear(line: RankPoint, traced: RankPoint): boolean {
  const names = ['allocatedBytes', 'reservedBytes', 'leastCapacityBytes'] as const;
  return names.every(
    (name) => Math.abs(line.peak[name] - traced.peak[name]) <= nearShare * traced.peak[name],
  );
}
