import type { OrderReason } from './reasons/types.js';
import type { WaitingJob } from './types.js';
import { agingSeconds } from './waiting-list.js';

const noHeadStart = { size: 0, length: 0, first: 0 };

/**
 * Why a job of the queue comes before the next one: what moves it ahead the most. Both are in the order
 * of `inOrder`.
 *
 * @example
 * orderReason(waiting[0], waiting[1]); // { code: 'priority', jobId: '7', priority: 5, ownPriority: 0 }
 */
export function orderReason(before: WaitingJob, job: WaitingJob): OrderReason {
  const [theirs, own] = [partsOf(before), partsOf(job)];
  const jobId = before.id;
  const earlierSeconds = own.submitted - theirs.submitted;
  // Of equals the first was submitted earlier.
  const reasons: readonly (readonly [seconds: number, reason: OrderReason])[] = [
    [earlierSeconds, { code: 'earlier', jobId, seconds: Math.max(0, Math.round(earlierSeconds)) }],
    [
      (theirs.priority - own.priority) * agingSeconds,
      { code: 'priority', jobId, priority: theirs.priority, ownPriority: own.priority },
    ],
    [theirs.size - own.size, { code: 'larger', jobId }],
    [theirs.length - own.length, { code: 'longer', jobId }],
    [theirs.first - own.first, { code: 'first-of-workload', jobId }],
  ];
  const [, strongest] = reasons.reduce((most, one) => (one[0] > most[0] ? one : most));
  return strongest;
}

interface Parts {
  readonly priority: number;
  /** In seconds of the queue. */
  readonly submitted: number;
  readonly size: number;
  readonly length: number;
  readonly first: number;
}

/** What its turn is made of. */
function partsOf({ turn, priority = 0, headStart = noHeadStart }: WaitingJob): Parts {
  const { size, length, first } = headStart;
  const submitted = turn / 1000 + priority * agingSeconds + size + length + first;
  return { priority, submitted, size, length, first };
}
