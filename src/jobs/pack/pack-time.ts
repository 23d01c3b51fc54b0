import { isKnown, type Known } from '../../units/known.js';

/** A job that has not started yet. */
export interface PackedWaiting {
  readonly id: string;
  /** How long earlier runs of the same command took. */
  readonly expectedSeconds: Known<number>;
}

/** So long before the end nothing is started whose time is unknown, and what runs is asked to end. */
export const endMarginSeconds = 60;

/**
 * The waiting jobs that would not end before the allocation does: they are not started. A job whose
 * time is unknown counts as long as the longest that was seen in this list.
 *
 * @example
 * outOfTime([{ id: '7', expectedSeconds: 600 }], 300, 'unknown'); // ['7']
 */
export function outOfTime(
  waiting: readonly PackedWaiting[],
  secondsLeft: Known<number>,
  longestSeconds: Known<number>,
): readonly string[] {
  if (!isKnown(secondsLeft)) return [];
  const usable = secondsLeft - endMarginSeconds;
  return waiting
    .filter(({ expectedSeconds }) => {
      const expected = isKnown(expectedSeconds) ? expectedSeconds : longestSeconds;
      return usable <= 0 || (isKnown(expected) && expected > usable);
    })
    .map(({ id }) => id);
}
