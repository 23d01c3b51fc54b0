import type { Degraded, DegradedSettings } from './degraded.js';
import { candidates } from './placement.js';
import type { DegradedReason, RefusalReason } from './reasons/types.js';
import type { Need } from './types.js';

/** The decision about an incoming job. */
export type FitVerdict =
  | { readonly verdict: 'fits'; readonly need: Need }
  | {
      readonly verdict: 'degraded';
      readonly need: Need;
      readonly settings: DegradedSettings;
      readonly reason: DegradedReason;
    }
  | { readonly verdict: 'refused'; readonly reason: RefusalReason };

interface Line {
  readonly id: string;
  readonly loadLineBytes: number;
}

/** The largest reservation that each device of a job allows; undefined where there are too few. */
export function largestOffer(lines: readonly Line[], need: Pick<Need, 'gpus'>): number | undefined {
  const { rooms, count } = candidates(lines, need);
  return rooms.map(({ loadLineBytes }) => loadLineBytes).toSorted((a, b) => b - a)[count - 1];
}

/**
 * Whether a job can ever run here. One that never will is changed by its plan, where there is one
 * that fits, or refused at once with the reason: it must not wait for what cannot come.
 *
 * @example
 * judgeFit({ bytes: 80e9, basis: 'stated', gpus: 1 }, [{ id: 'gpu:0', loadLineBytes: 72e9 }]).verdict;
 * // 'refused'
 */
export function judgeFit(need: Need, lines: readonly Line[], degraded?: Degraded): FitVerdict {
  const largestBytes = largestOffer(lines, need);
  if (largestBytes === undefined) {
    return { verdict: 'refused', reason: tooFewDevices(lines, need) };
  }
  if (need.bytes <= largestBytes) return { verdict: 'fits', need };
  const { basis, gpus } = need;
  const tooLarge = { bytes: need.bytes, basis, gpus, largestBytes };
  if (degraded === undefined || degraded.bytes > largestBytes) {
    return { verdict: 'refused', reason: { code: 'too-large', ...tooLarge, smallest: degraded } };
  }
  const { bytes, settings } = degraded;
  return {
    verdict: 'degraded',
    need: { bytes, basis: 'estimated', gpus },
    settings,
    reason: { code: 'degraded', ...tooLarge, settings, degradedBytes: bytes },
  };
}

function tooFewDevices(lines: readonly Line[], need: Pick<Need, 'gpus'>): RefusalReason {
  const { rooms, count } = candidates(lines, need);
  return count === 1
    ? { code: 'no-device' }
    : { code: 'too-few-gpus', askedGpus: count, foundGpus: rooms.length };
}
