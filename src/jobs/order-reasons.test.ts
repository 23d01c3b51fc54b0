import { describe, expect, it } from 'vitest';
import { inOrder } from './admission-order.js';
import { orderReason } from './order-reasons.js';
import { roomsWith, waitingJob } from './queue-for-tests.js';
import { orderReasonWords } from './reasons/order-words.js';

const rooms = roomsWith(1, []);
const short = { expectedSeconds: 10 };

/** Why the second of them is behind the first, once they are in order. */
function reasonOf(...jobs: readonly ReturnType<typeof waitingJob>[]) {
  const [first, second] = inOrder(jobs, [], rooms);
  if (first === undefined || second === undefined) throw new Error('there are two');
  return orderReason(first, second);
}

describe('why a job is behind the one before it', () => {
  it('is a higher priority', () => {
    const reason = reasonOf(
      waitingJob('1', 10, short),
      waitingJob('2', 10, { ...short, atSeconds: 60, priority: 5 }),
    );
    expect(reason).toEqual({ code: 'priority', jobId: '2', priority: 5, ownPriority: 0 });
    expect(orderReasonWords(reason)).toBe(
      'Job 2 is before it, as its priority is higher (5, here 0).',
    );
  });

  it('is an earlier submission, also against a priority that age outweighs', () => {
    const early = waitingJob('1', 10, short);
    const reason = reasonOf(early, waitingJob('2', 10, { ...short, atSeconds: 90 }));
    expect(reason).toEqual({ code: 'earlier', jobId: '1', seconds: 90 });
    expect(orderReasonWords(reason)).toContain('submitted 1 min 30 s earlier');
    const later = waitingJob('2', 10, { ...short, atSeconds: 1300, priority: 2 });
    expect(reasonOf(early, later)).toEqual({ code: 'earlier', jobId: '1', seconds: 1300 });
    expect(reasonOf(early, waitingJob('2', 10, short))).toMatchObject({ code: 'earlier' });
  });

  it('is its size, its length, or that it is the first of its workload', () => {
    const small = waitingJob('1', 1, short);
    expect(reasonOf(small, waitingJob('2', 90, { ...short, atSeconds: 30 }))).toEqual({
      code: 'larger',
      jobId: '2',
    });
    const long = waitingJob('2', 1, { expectedSeconds: 7200, atSeconds: 30 });
    expect(reasonOf(small, long)).toEqual({ code: 'longer', jobId: '2' });
    const first = { ...short, atSeconds: 30, basis: 'estimated', workloadKey: 'new' } as const;
    expect(reasonOf(small, waitingJob('2', 1, first))).toEqual({
      code: 'first-of-workload',
      jobId: '2',
    });
  });
});
