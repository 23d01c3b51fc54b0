import { describe, expect, it } from 'vitest';
import { inOrder } from './admission-order.js';
import { orderReasonWords } from './daemon/submission/job-queue.js';
import { roomsWith, runningJob, waitingJob } from './queue-for-tests.js';
import { explainWaiting, orderReason } from './waiting-reasons.js';

describe('explainWaiting', () => {
  it('tells why each waits, and when it should start', () => {
    const running = [runningJob('a', 60, ['gpu:0'], 100_000)];
    const holds = [{ jobId: '1', devices: ['gpu:0'], sinceMs: 0 }];
    const waiting = [
      waitingJob('1', 80, { expectedSeconds: 50 }),
      waitingJob('2', 30, { expectedSeconds: 500 }),
      waitingJob('3', 90),
      waitingJob('4', 5, { expectedSeconds: 90 }),
    ];
    const rooms = roomsWith(1, running);
    const explained = explainWaiting({ waiting, running, rooms, holds, nowMs: 0 });
    const facts = { bytes: 80, devices: 1, wholeDevice: false, freeBytes: 30, keptDevices: [] };
    const behind = (jobId: string) => ({ code: 'earlier', jobId, seconds: 0 });
    expect(explained).toEqual([
      {
        id: '1',
        position: 1,
        reason: { code: 'memory-in-use', ...facts, keptDevices: ['gpu:0'] },
        order: null,
        expectedStartMs: 100_000,
      },
      {
        id: '2',
        position: 2,
        reason: { code: 'behind-job', jobId: '1' },
        order: behind('1'),
        expectedStartMs: 150_000,
      },
      {
        id: '3',
        position: 3,
        reason: { code: 'memory-in-use', ...facts, bytes: 90 },
        order: behind('2'),
        expectedStartMs: 650_000,
      },
      {
        id: '4',
        position: 4,
        reason: { code: 'behind-job', jobId: '1' },
        order: behind('3'),
        expectedStartMs: 0,
      },
    ]);
  });

  it('tells nothing of jobs that take other memory, or wait for their estimates', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const [gpu, host] = roomsWith(2, running);
    if (gpu === undefined || host === undefined) throw new Error('there are two');
    const rooms = [gpu, { ...host, id: 'host' }];
    const large = waitingJob('1', 89, { gpus: 0 });
    const holds = [{ jobId: '1', devices: ['host'], sinceMs: 0 }];
    const waiting = [
      large,
      { ...waitingJob('2', 90, { basis: 'unknown' }), estimating: true },
      waitingJob('3', 30),
      waitingJob('4', 20),
      waitingJob('5', 1, { gpus: 0 }),
    ];
    const explained = explainWaiting({ waiting, running, rooms, holds, nowMs: 0 });
    const before = explained.map(({ position, reason, order }) => [
      position,
      reason.code,
      order?.jobId ?? null,
    ]);
    expect(before).toEqual([
      [1, 'starting', null],
      [1, 'estimating', null],
      [1, 'starting', null],
      [2, 'starting', '3'],
      [2, 'behind-job', '1'],
    ]);
  });

  it('says when it cannot know', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [waitingJob('1', 80)];
    const [explained] = explainWaiting({
      waiting,
      running,
      rooms: roomsWith(1, running),
      holds: [],
      nowMs: 0,
    });
    expect(explained?.expectedStartMs).toBe('unknown');
  });

  it('names what blocks it beside jobs', () => {
    const why = (
      rooms: ReturnType<typeof roomsWith>,
      settings = {},
      running = [runningJob('a', 5, [])],
    ) =>
      explainWaiting(
        { waiting: [waitingJob('1', 80)], running, rooms, holds: [], nowMs: 0 },
        settings,
      )[0]?.reason.code;
    expect(why(roomsWith(1, [], [40]))).toBe('other-processes');
    expect(why(roomsWith(1, [], ['unknown']))).toBe('device-not-read');
    expect(why(roomsWith(1, []), { maxRunning: 1 })).toBe('concurrency-limit');
    const [room] = roomsWith(1, []);
    expect(why(room ? [{ ...room, freeBytes: 10, releasingBytes: 80 }] : [])).toBe(
      'memory-being-released',
    );
    expect(why(roomsWith(1, []))).toBe('starting');
  });

  it('says that a job of which nothing is known waits for a whole device', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [{ ...waitingJob('1', 90, { basis: 'unknown' }), alone: true }];
    const state = { waiting, running, rooms: roomsWith(1, running), holds: [], nowMs: 0 };
    expect(explainWaiting(state)[0]?.reason).toMatchObject({
      code: 'memory-in-use',
      wholeDevice: true,
    });
  });
});

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
