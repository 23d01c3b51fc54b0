import { formatSeconds } from '../../units/durations.js';
import type { OrderReason } from './types.js';

/**
 * Why a job is behind the one before it, in words.
 *
 * @example
 * orderReasonWords({ code: 'larger', jobId: '7' });
 * // 'Job 7 is before it, as it needs more memory: a gap for it is rare.'
 */
export function orderReasonWords(reason: OrderReason): string {
  const before = `Job ${reason.jobId} is before it`;
  switch (reason.code) {
    case 'priority':
      return `${before}, as its priority is higher (${reason.priority}, here ${reason.ownPriority}).`;
    case 'earlier':
      return reason.seconds < 1
        ? `${before}, as it was submitted earlier.`
        : `${before}, as it was submitted ${formatSeconds(reason.seconds)} earlier.`;
    case 'larger':
      return `${before}, as it needs more memory: a gap for it is rare.`;
    case 'longer':
      return `${before}, as it is expected to run longer.`;
    case 'first-of-workload':
      return `${before}, as it is the first of its workload: what it measures tells the need of the others.`;
    default:
      return reason satisfies never;
  }
}
