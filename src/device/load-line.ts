import { Failure } from '../failure.js';

/** The share of a device, or of a limit, that jobs may fill, unless set otherwise. */
export const defaultLoadLine = 0.9;

export interface LoadLineSettings {
  /** A share of the capacity, above 0 and up to 1. */
  readonly share?: number | undefined;
  /** Bytes that stay free in any case. */
  readonly marginBytes?: number | undefined;
}

/**
 * Up to where a device may be filled with reservations: 90 % of its capacity, and less where a
 * margin asks for it.
 *
 * @example
 * loadLineOf(80 * 2 ** 30); // 77309411328, which is 72 GiB
 */
export function loadLineOf(
  capacityBytes: number,
  { share = defaultLoadLine, marginBytes = 0 }: LoadLineSettings = {},
): number {
  if (!(share > 0 && share <= 1)) {
    throw new Failure({
      kind: 'input',
      code: 'bad-load-line',
      fact: `The load line must be between 0 and 1; it is ${share}.`,
      next: 'Give a number above 0 and up to 1, such as 0.9.',
    });
  }
  return Math.max(0, Math.min(Math.floor(capacityBytes * share), capacityBytes - marginBytes));
}
