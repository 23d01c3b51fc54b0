import { MiB } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { EndReason, OveruseWarning } from '../../reasons/types.js';

/** Figures of contexts and of the driver are this much off, which does no harm. */
const slackBytes = 128 * MiB;
const slackShare = 0.03;
/** A peak that passes is forgiven; one that stays is not. */
const graceSeconds = 10;

export interface Overuse {
  readonly sinceSeconds: number;
}

export type OveruseVerdict =
  | { readonly verdict: 'fine' }
  | { readonly verdict: 'warn'; readonly over: Overuse; readonly warning: OveruseWarning }
  | { readonly verdict: 'end'; readonly over: Overuse; readonly reason: EndReason }
  | { readonly verdict: 'over'; readonly over: Overuse };

/**
 * Whether a job takes more than it was promised: it is warned first, then ended. Use that cannot be
 * read is not counted.
 */
export function judgeUse(options: {
  readonly usedBytes: Known<number>;
  readonly promisedBytes: number;
  /** It has its device to itself, and may take what is there. */
  readonly alone: boolean;
  readonly nowSeconds: number;
  readonly over: Overuse | undefined;
}): OveruseVerdict {
  const { usedBytes, promisedBytes, alone, nowSeconds, over } = options;
  const most = promisedBytes + Math.max(slackBytes, promisedBytes * slackShare);
  if (!isKnown(usedBytes) || usedBytes <= most) return { verdict: 'fine' };
  const facts = { usedBytes, reservedBytes: promisedBytes };
  if (over === undefined) {
    const warning = { ...facts, graceSeconds: alone ? null : graceSeconds };
    return {
      verdict: 'warn',
      over: { sinceSeconds: nowSeconds },
      warning: { code: 'over-reservation-warning', ...warning },
    };
  }
  if (alone || nowSeconds - over.sinceSeconds < graceSeconds) return { verdict: 'over', over };
  return { verdict: 'end', over, reason: { code: 'over-reservation', ...facts } };
}
