import { formatBytes, MiB } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';

/** Figures of contexts and of the driver are this much off, and nobody is hurt by it. */
const slackBytes = 128 * MiB;
const slackShare = 0.03;
/** A peak that passes is forgiven; one that stays is not. */
const graceSeconds = 10;

export interface Overuse {
  readonly sinceSeconds: number;
}

export type OveruseVerdict =
  | { readonly verdict: 'fine' }
  | { readonly verdict: 'warn' | 'end'; readonly over: Overuse; readonly words: string }
  | { readonly verdict: 'over'; readonly over: Overuse };

/**
 * Whether a job takes more than it was promised: it is warned first, then held to it. What nobody can
 * see is not held against it.
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
  const facts = `It uses ${formatBytes(usedBytes)} of a device; it reserved ${formatBytes(promisedBytes)}`;
  if (over === undefined) {
    const next = alone ? '.' : `. If it still does in ${graceSeconds} s, it is ended.`;
    return { verdict: 'warn', over: { sinceSeconds: nowSeconds }, words: `${facts}${next}` };
  }
  if (alone || nowSeconds - over.sinceSeconds < graceSeconds) return { verdict: 'over', over };
  return { verdict: 'end', over, words: `Ended: ${facts}, and it was warned.` };
}
