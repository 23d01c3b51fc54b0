import type { Known } from '../../units/known.js';

/** What an advice saves. A share is of the device's memory, or of the time of a step; from 0 to 1. */
export type Saving =
  | {
      readonly kind: 'bytes';
      readonly bytes: number;
      /** The figure is the most that it can be. */
      readonly atMost: boolean;
      readonly device: string;
      readonly share: Known<number>;
      readonly source: 'measured' | 'estimated' | 'simulated';
    }
  | {
      readonly kind: 'time';
      readonly lowShare: number;
      readonly highShare: number;
      readonly source: 'measured' | 'estimated';
      /** Where the figure comes from, in words. */
      readonly where: string;
    }
  | { readonly kind: 'unknown' };

/** One thing to do. */
export interface Advice {
  /** A short name that stays the same: programs look for it. */
  readonly code: string;
  /** One sentence: what is so now. */
  readonly fact: string;
  /** Commands to type, or lines to write, as they are. */
  readonly steps: readonly string[];
  readonly saves: Saving;
}

export const unknownSaving: Saving = { kind: 'unknown' };

/**
 * What saves most comes first: bytes count as their share of the device, time as its share of a step.
 * What saves an unknown amount comes last, in the order given.
 *
 * @example
 * inOrder([{ ...one, saves: { kind: 'unknown' } }, other]); // [other, one]
 */
export function inOrder(advice: readonly Advice[]): readonly Advice[] {
  return advice.toSorted((a, b) => weightOf(b.saves) - weightOf(a.saves));
}

function weightOf(saves: Saving): number {
  if (saves.kind === 'time') return saves.highShare;
  // Known bytes of a device whose size is unknown are worth more than nothing.
  if (saves.kind === 'bytes') return saves.share === 'unknown' ? Number.EPSILON : saves.share;
  return -1;
}

/** Bytes of a device, with their share of it. */
export function bytesSaved(
  bytes: number,
  device: {
    readonly id: string;
    readonly totalBytes: Known<number>;
    readonly provenance: 'measured' | 'simulated';
  },
  source: 'seen' | 'estimated' = 'seen',
): Saving {
  const whole = Math.max(0, Math.round(bytes));
  return {
    kind: 'bytes',
    bytes: whole,
    atMost: false,
    device: device.id,
    share: device.totalBytes === 'unknown' ? 'unknown' : whole / Math.max(1, device.totalBytes),
    source: source === 'estimated' ? 'estimated' : device.provenance,
  };
}
