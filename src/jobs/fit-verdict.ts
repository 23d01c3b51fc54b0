import { formatBytes } from '../units/bytes.js';
import { type Degraded, type DegradedSettings, degradedSettingsWords } from './degraded.js';
import { candidates } from './placement.js';
import type { Need } from './types.js';

/** What becomes of a job when it comes in. */
export type FitVerdict =
  | { readonly verdict: 'fits'; readonly need: Need }
  | {
      readonly verdict: 'degraded';
      readonly need: Need;
      readonly settings: DegradedSettings;
      readonly reason: string;
    }
  | { readonly verdict: 'refused'; readonly reason: string };

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
  const offer = largestOffer(lines, need);
  if (offer === undefined) return { verdict: 'refused', reason: tooFewDevices(lines, need) };
  if (need.bytes <= offer) return { verdict: 'fits', need };
  const places = need.gpus > 1 ? `each of ${need.gpus} GPUs` : 'any device';
  const tooLarge = `needs ${formatBytes(need.bytes)} (${need.basis}); the largest reservation ${places} allows is ${formatBytes(offer)}.`;
  if (degraded === undefined) return { verdict: 'refused', reason: `It ${tooLarge}` };
  const { bytes, settings } = degraded;
  const words = degradedSettingsWords(settings);
  if (bytes > offer) {
    return {
      verdict: 'refused',
      reason: `It ${tooLarge} With ${words}, the smallest settings that its command takes, it still needs ${formatBytes(bytes)}.`,
    };
  }
  return {
    verdict: 'degraded',
    need: { bytes, basis: 'estimated', gpus: need.gpus },
    settings,
    reason: `As asked, it ${tooLarge} It runs with ${words} instead, which needs ${formatBytes(bytes)} (estimated).`,
  };
}

function tooFewDevices(lines: readonly Line[], need: Pick<Need, 'gpus'>): string {
  const { rooms, count } = candidates(lines, need);
  if (count === 1) return 'There is no device for jobs.';
  const there =
    rooms.length === 0 ? 'is none' : rooms.length === 1 ? 'is 1' : `are ${rooms.length}`;
  return `It asks for ${count} GPUs at once; there ${there}.`;
}
