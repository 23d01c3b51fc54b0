import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { admit, type Hold, type QueueState, runningFrom } from './admission.js';
import { inOrder } from './admission-order.js';
import { roomsWith, runningJob, waitingJob } from './queue-for-tests.js';
import type { RunningJob } from './types.js';
import { WaitingList } from './waiting-list.js';

function state(parts: Partial<QueueState> & { readonly devices?: number }): QueueState {
  const { waiting = [], running = [], holds = [], nowMs = 0, devices = 1 } = parts;
  return { waiting, running, holds, nowMs, rooms: parts.rooms ?? roomsWith(devices, running) };
}

const started = (given: QueueState, settings = {}) =>
  admit(given, settings).starts.map(({ job }) => job.id);

describe('admit', () => {
  it('starts jobs in order while there is room', () => {
    const waiting = [
      waitingJob('1', 40),
      waitingJob('2', 40),
      waitingJob('3', 10),
      waitingJob('4', 1),
    ];
    expect(started(state({ waiting }))).toEqual(['1', '2', '3']);
    expect(started(state({ waiting }), { maxRunning: 2 })).toEqual(['1', '2']);
  });

  it('fills gaps behind a job that does not fit, with what it does not need', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [
      waitingJob('head', 50, { atSeconds: 1 }),
      waitingJob('fits', 30, { atSeconds: 2 }),
    ];
    const { starts, holds } = admit(state({ waiting, running }));
    expect(starts.map(({ job }) => job.id)).toEqual(['fits']);
    expect(holds).toEqual([{ jobId: 'head', devices: ['gpu:0'], sinceMs: 0 }]);
    // 20 are free beside 60 + 10, but 50 for the head and 41 for it would be too much.
    const late = [waitingJob('head', 50), waitingJob('large', 20), waitingJob('larger', 25)];
    const twenty = [
      runningJob('a', 65, ['gpu:0']),
      { ...runningJob('b', 21, ['gpu:0']), turn: 5000 },
    ];
    expect(started(state({ waiting: late, running: twenty }))).toEqual([]);
  });

  it('lets a job borrow the room that is held when it should end in time, but not for ever', () => {
    const running = [runningJob('a', 60, ['gpu:0'], 100_000)];
    const waiting = [
      waitingJob('head', 80, { atSeconds: 1 }),
      waitingJob('long', 30, { atSeconds: 2, expectedSeconds: 101 }),
      waitingJob('short', 30, { atSeconds: 2, expectedSeconds: 99 }),
    ];
    expect(started(state({ waiting, running }))).toEqual(['short']);
    const holds = [{ jobId: 'head', devices: ['gpu:0'], sinceMs: -3_600_000 }];
    expect(started(state({ waiting, running, holds }))).toEqual([]);
  });

  it('uses other devices than those held, and keeps to its choice', () => {
    const running = [runningJob('a', 80, ['gpu:0'], 5000), runningJob('b', 50, ['gpu:1'], 9000)];
    const waiting = [
      waitingJob('head', 60, { atSeconds: 1 }),
      waitingJob('next', 35, { atSeconds: 2 }),
    ];
    const { starts, holds } = admit(state({ waiting, running, devices: 2 }));
    expect(holds[0]?.devices).toEqual(['gpu:0']);
    expect(starts[0]?.reservation.devices).toEqual(['gpu:1']);
    const kept = [{ jobId: 'head', devices: ['gpu:1'], sinceMs: 7 }];
    expect(admit(state({ waiting, running, devices: 2, holds: kept })).holds).toEqual(kept);
  });

  it('holds devices for the first that waits for GPUs, and for the first that waits for the host', () => {
    const running = [runningJob('a', 60, ['gpu:0']), runningJob('b', 60, ['gpu:1'])];
    const [gpu, host] = roomsWith(2, running);
    if (gpu === undefined || host === undefined) throw new Error('there are two');
    const rooms = [gpu, { ...host, id: 'host' }];
    const waiting = [
      waitingJob('on the host', 80, { gpus: 0, atSeconds: 1 }),
      waitingJob('on a GPU', 80, { atSeconds: 2 }),
      waitingJob('another on the host', 30, { gpus: 0, atSeconds: 3 }),
      waitingJob('another on a GPU', 30, { atSeconds: 4 }),
    ];
    const { starts, holds } = admit(state({ waiting, running, rooms }));
    expect(starts).toEqual([]);
    const kept = [
      { jobId: 'on the host', devices: ['host'], sinceMs: 0 },
      { jobId: 'on a GPU', devices: ['gpu:0'], sinceMs: 0 },
    ];
    expect(holds).toEqual(kept);
    // Nothing is looked at while no more may run.
    const full = admit(state({ waiting, running, rooms, holds: kept, nowMs: 9 }), {
      maxRunning: 2,
    });
    expect(full).toEqual({ starts: [], holds: kept, resizes: [] });
  });

  it('holds nothing for a job that only other processes keep out', () => {
    const waiting = [waitingJob('blocked', 60), waitingJob('small', 30)];
    const { starts, holds } = admit(state({ waiting, rooms: roomsWith(1, [], [50]) }));
    expect(starts.map(({ job }) => job.id)).toEqual(['small']);
    expect(holds).toEqual([]);
  });

  it('gives a job all of its devices, or none', () => {
    const waiting = [waitingJob('pair', 50, { gpus: 2 })];
    const running = [runningJob('a', 60, ['gpu:0'])];
    expect(admit(state({ waiting, running, devices: 2 })).holds[0]?.devices.length).toBe(2);
    expect(admit(state({ waiting, devices: 2 })).starts[0]?.reservation.devices).toEqual([
      'gpu:0',
      'gpu:1',
    ]);
  });
});

const expectedLength = fc.constantFrom('right', 'unknown', 'far too short');
const priority = fc.integer({ min: -2, max: 2 });
const crowd = fc.record({
  bytes: fc.integer({ min: 10, max: 45 }),
  gpus: fc.constantFrom(1, 1, 1, 2),
  priority,
  seconds: fc.integer({ min: 10, max: 50 }),
  expected: expectedLength,
});
const large = fc.record({
  bytes: fc.integer({ min: 60, max: 90 }),
  gpus: fc.integer({ min: 1, max: 3 }),
  priority,
  seconds: fc.integer({ min: 1, max: 50 }),
  expected: expectedLength,
});

describe('a queue that never rests', () => {
  it('starves no job, and never passes a load line', () => {
    fc.assert(
      fc.property(fc.array(crowd, { minLength: 1, maxLength: 20 }), large, (kinds, victim) => {
        // A large job comes first; then, without end, smaller ones that would always find a gap.
        const list = new WaitingList();
        const lengths = new Map<string, number>();
        let running: (RunningJob & { readonly endsAt: number })[] = [];
        let holds: readonly Hold[] = [];
        let victimAt: number | undefined;
        const add = (id: string, at: number, { expected, ...kind }: typeof victim) => {
          const expectedSeconds =
            expected === 'unknown' ? expected : expected === 'right' ? kind.seconds : 1;
          lengths.set(id, kind.seconds);
          list.add(waitingJob(id, kind.bytes, { ...kind, atSeconds: at, expectedSeconds }));
        };
        add('victim', 0, victim);
        // Four steps of priority and a head start are 50 minutes of age; no job borrows after an hour.
        for (let now = 1; now < 12_000 && victimAt === undefined; now++) {
          // At most forty wait: more would only make the test slow.
          for (let more = 0; more < 2 && list.size < 40; more++) {
            const kind = kinds[(2 * now + more) % kinds.length];
            if (kind) add(String(2 * now + more), now, kind);
          }
          running = running.filter(({ endsAt }) => endsAt > now);
          const rooms = roomsWith(3, running);
          const waiting = inOrder(list.first(1000), running, rooms);
          const answer = admit({ waiting, running, rooms, holds, nowMs: now * 1000 });
          ({ holds } = answer);
          for (const { job, reservation } of answer.starts) {
            list.remove(job.id);
            if (job.id === 'victim') victimAt = now;
            const endsAt = now + (lengths.get(job.id) ?? 1);
            running.push({ ...runningFrom(job, reservation, now * 1000), endsAt });
          }
          for (const room of roomsWith(3, running))
            expect(room.reservedBytes).toBeLessThanOrEqual(90);
        }
        expect(victimAt).toBeDefined();
      }),
      { numRuns: 30 },
    );
  });
});
