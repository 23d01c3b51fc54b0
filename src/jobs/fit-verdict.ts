import type { Plan } from '../plan/fit/types.js';
import { formatBytes } from '../units/bytes.js';
import type { Need } from './contract.js';
import { bytesToReserve } from './corrections.js';
import { candidates } from './placement.js';

/** Settings with which a job that is too large fits after all. */
export interface Degraded {
  /** On each device, estimated. */
  readonly bytes: number;
  readonly batch: number;
  readonly accumulation: number;
}

/** What becomes of a job when it comes in. */
export type FitVerdict =
  | { readonly verdict: 'fits'; readonly need: Need }
  | {
      readonly verdict: 'degraded';
      readonly need: Need;
      readonly settings: { readonly batch: number; readonly accumulation: number };
      readonly reason: string;
    }
  | { readonly verdict: 'refused'; readonly reason: string };

interface Line {
  readonly id: string;
  readonly lineBytes: number;
}

/** The most that each device of a job could ever be promised; undefined where there are too few. */
export function largestOffer(lines: readonly Line[], need: Pick<Need, 'gpus'>): number | undefined {
  const { rooms, count } = candidates(lines, need);
  return rooms.map(({ lineBytes }) => lineBytes).toSorted((a, b) => b - a)[count - 1];
}

/**
 * Whether a job can ever run here. One that never will is changed by its plan, where there is one
 * that fits, or refused at once with the reason: it must not wait for what cannot come.
 *
 * @example
 * judgeFit({ bytes: 80e9, basis: 'stated', gpus: 1 }, [{ id: 'gpu:0', lineBytes: 72e9 }]).verdict;
 * // 'refused'
 */
export function judgeFit(need: Need, lines: readonly Line[], degraded?: Degraded): FitVerdict {
  const offer = largestOffer(lines, need);
  if (offer === undefined) {
    const { rooms, count } = candidates(lines, need);
    return {
      verdict: 'refused',
      reason: `It asks for ${count} devices at once; there ${rooms.length === 1 ? 'is 1' : `are ${rooms.length}`}.`,
    };
  }
  if (need.bytes <= offer) return { verdict: 'fits', need };
  const places = need.gpus > 1 ? `each of ${need.gpus} GPUs` : 'any device';
  const tooLarge = `It needs ${formatBytes(need.bytes)} (${need.basis}); the most that ${places} can be promised is ${formatBytes(offer)}.`;
  if (degraded === undefined) return { verdict: 'refused', reason: tooLarge };
  const { bytes, batch, accumulation } = degraded;
  if (bytes > offer) {
    return {
      verdict: 'refused',
      reason: `${tooLarge} Its smallest plan still needs ${formatBytes(bytes)}.`,
    };
  }
  return {
    verdict: 'degraded',
    need: { bytes, basis: 'estimated', gpus: need.gpus },
    settings: { batch, accumulation },
    reason: `${tooLarge} It runs with batch ${batch} and accumulation ${accumulation} instead, which need ${formatBytes(bytes)}.`,
  };
}

/** What a plan made for `largestOffer` bytes says to do; undefined where it found nothing. */
export function degradedBy(
  plan: Pick<Plan, 'fits' | 'surely' | 'settings' | 'estimate'>,
): Degraded | undefined {
  const { batch, accumulation } = plan.settings;
  return plan.fits
    ? {
        bytes: plan.surely ? bytesToReserve(plan.estimate) : plan.estimate.peak.deviceBytes,
        batch,
        accumulation,
      }
    : undefined;
}
