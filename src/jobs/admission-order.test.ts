import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { admit, type Hold, runningFrom } from './admission.js';
import { inOrder } from './admission-order.js';
import { roomsWith, runningJob, waitingJob } from './queue-for-tests.js';
import type { RunningJob } from './types.js';
import { agingSeconds, WaitingList } from './waiting-list.js';

const rooms = roomsWith(2, []);
const ids = (...parameters: Parameters<typeof inOrder>) =>
  inOrder(...parameters).map(({ id }) => id);
const known = { expectedSeconds: 60 };

describe('inOrder', () => {
  it('puts large jobs, several devices and long ones before those of the same time', () => {
    const waiting = [
      waitingJob('small', 10, known),
      waitingJob('pair', 40, { ...known, gpus: 2 }),
      waitingJob('large', 60, known),
      waitingJob('long', 10, { expectedSeconds: 3600 }),
      waitingJob('unknown', 10),
    ];
    expect(ids(waiting, [], rooms)).toEqual(['pair', 'large', 'long', 'unknown', 'small']);
  });

  it('puts the first of a workload before others, until one of them runs', () => {
    const kind = { ...known, basis: 'estimated', workloadKey: 'w' } as const;
    const waiting = [
      waitingJob('large', 15, known),
      waitingJob('first', 10, kind),
      waitingJob('second', 10, kind),
    ];
    expect(ids(waiting, [], rooms)).toEqual(['first', 'large', 'second']);
    const running = [{ ...runningJob('0', 10, ['gpu:0']), workloadKey: 'w' }];
    expect(ids(waiting, running, rooms)).toEqual(['large', 'first', 'second']);
  });

  it('leaves no job out, whatever the turns are', () => {
    const turn = fc.double({ min: -2e12, max: 3e12, noNaN: true });
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 1000 }), (turns) => {
        const waiting = turns.map((at, index) => ({
          ...waitingJob(String(index), index % 70, known),
          turn: at,
        }));
        const ordered = inOrder(waiting, [], rooms);
        expect(new Set(ordered.map(({ id }) => id)).size).toBe(turns.length);
        const sorted = ordered.map((job) => Math.floor(job.turn));
        expect(sorted).toEqual(sorted.toSorted((a, b) => a - b));
      }),
      { numRuns: 200 },
    );
  });

  it('never counts more than a step of priority, nor for less than the time of coming', () => {
    const job = fc.record({
      bytes: fc.integer({ min: 1, max: 1000 }),
      gpus: fc.nat(8),
      atSeconds: fc.nat(2000),
      priority: fc.integer({ min: -3, max: 3 }),
      expectedSeconds: fc.oneof(fc.constant('unknown' as const), fc.nat(100_000)),
      basis: fc.constantFrom('stated' as const, 'estimated' as const, 'measured' as const),
      workloadKey: fc.constantFrom('a', 'b'),
    });
    fc.assert(
      fc.property(fc.array(job, { maxLength: 30 }), (drawn) => {
        const list = new WaitingList(
          drawn.map((one, index) => waitingJob(String(index), one.bytes, one)),
        );
        const before = list.first(100);
        const after = inOrder(before, [], rooms);
        expect(new Set(after.map(({ id }) => id)).size).toBe(before.length);
        for (const { id, turn } of after) {
          const ahead = (list.get(id)?.turn ?? 0) - turn;
          expect(ahead).toBeGreaterThanOrEqual(0);
          expect(ahead).toBeLessThan(agingSeconds * 1000);
        }
      }),
    );
  });
});

/** Seconds between two of them; with two devices, more come than could ever run. */
const everySeconds = 30;
const maxSeconds = 300;

describe('a small job among large ones that never stop coming', () => {
  it('waits for those that came within a head start of it, and for no others', () => {
    const rival = fc.record({
      bytes: fc.integer({ min: 46, max: 90 }),
      gpus: fc.constantFrom(1, 1, 2),
      seconds: fc.integer({ min: 70, max: maxSeconds }),
      isNew: fc.boolean(),
    });
    const rivals = fc.array(rival, { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(rivals, fc.integer({ min: 1, max: 45 }), (kinds, bytes) => {
        const list = new WaitingList([waitingJob('victim', bytes, known)]);
        const lengths = new Map<string, number>();
        let running: (RunningJob & { readonly endsAt: number })[] = [];
        let holds: readonly Hold[] = [];
        // All of them one after another, and one that runs already.
        const last = (agingSeconds / everySeconds + 2) * maxSeconds;
        for (let now = 0; now <= last && list.get('victim') !== undefined; now += everySeconds) {
          for (const kind of kinds.slice((now / everySeconds) % kinds.length).slice(0, 1)) {
            const id = String(now + 1);
            const workloadKey = kind.isNew ? id : 'same';
            lengths.set(id, kind.seconds);
            const asked = { gpus: kind.gpus, atSeconds: now, workloadKey };
            list.add(waitingJob(id, kind.bytes, { ...asked, basis: 'estimated' }));
          }
          running = running.filter(({ endsAt }) => endsAt > now);
          const free = roomsWith(2, running);
          const waiting = inOrder(list.first(1000), running, free);
          const answer = admit({ waiting, running, rooms: free, holds, nowMs: now * 1000 });
          ({ holds } = answer);
          for (const { job, reservation } of answer.starts) {
            list.remove(job.id);
            const endsAt = now + (lengths.get(job.id) ?? 1);
            running.push({ ...runningFrom(job, reservation, now * 1000), endsAt });
          }
        }
        expect(list.get('victim')).toBeUndefined();
      }),
      { numRuns: 40 },
    );
  });
});
