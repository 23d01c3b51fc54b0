import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../time/clock.js';
import { GiB, MiB } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import { Ledger } from './ledger.js';

const one = [{ id: 'gpu:0', capacityBytes: 100 * GiB }];
const reservation = (bytes: number, devices = ['gpu:0']) =>
  ({ devices, bytes, basis: 'stated' }) as const;

function reading(atSeconds: number, usedBytes: Known<number>, jobs: Record<string, number> = {}) {
  return { atSeconds, usedBytes, jobs: new Map(Object.entries(jobs)) };
}

function read(ledger: Ledger, at: number, used: Known<number>, jobs?: Record<string, number>) {
  ledger.observe('gpu:0', reading(at, used, jobs));
}

describe('Ledger', () => {
  it('promises up to the load line, and not a byte more', () => {
    const ledger = new Ledger(one);
    read(ledger, 0, 0);
    expect(ledger.reserve('1', reservation(90 * GiB))).toBeDefined();
    expect(ledger.reserve('2', reservation(1))).toBeUndefined();
  });

  it('hands out a reservation that the end of its block releases, once', () => {
    const clock = createVirtualClock();
    const ledger = new Ledger(one, {}, clock);
    read(ledger, 0, 0);
    {
      using reserved = ledger.reserve('1', reservation(90 * GiB));
      expect(reserved).toMatchObject({ jobId: '1', devices: ['gpu:0'], bytes: 90 * GiB });
      expect(ledger.rooms()[0]).toMatchObject({ freeBytes: 0, releasingBytes: 0 });
    }
    expect(ledger.rooms()[0]).toMatchObject({ freeBytes: 0, releasingBytes: 90 * GiB });
    read(ledger, 1, 0);
    expect(ledger.rooms()[0]?.freeBytes).toBe(90 * GiB);
    expect(ledger.reserve('2', reservation(GiB))).toBeDefined();
  });

  it('gives nothing before the device was read', () => {
    const ledger = new Ledger(one);
    expect(ledger.reserve('1', reservation(1))).toBeUndefined();
    read(ledger, 0, 'unknown');
    expect(ledger.reserve('1', reservation(1))).toBeUndefined();
  });

  it('keeps a margin free, and takes another load line', () => {
    const ledger = new Ledger(one, { share: 1, marginBytes: 30 * GiB });
    read(ledger, 0, 0);
    expect(ledger.rooms()[0]?.freeBytes).toBe(70 * GiB);
    expect(() => new Ledger(one, { share: 1.2 })).toThrow(
      'The load line must be between 0 and 1; it is 1.2',
    );
  });

  it('takes in a device that comes later, and promises nothing of one that is gone', () => {
    const ledger = new Ledger([]);
    expect(ledger.rooms()).toEqual([]);
    ledger.add({ id: 'gpu:0', capacityBytes: 100 * GiB });
    read(ledger, 0, 0);
    expect(ledger.reserve('1', reservation(20 * GiB))).toBeDefined();
    expect(ledger.entries('gpu:0')).toEqual([
      { jobId: '1', bytes: 20 * GiB, usedBytes: 0, isReleasing: false },
    ]);
    ledger.lose('gpu:0');
    expect(ledger.rooms()).toMatchObject([{ freeBytes: 0, reservedBytes: 20 * GiB }]);
    ledger.add({ id: 'gpu:0', capacityBytes: 100 * GiB });
    expect(ledger.rooms()).toMatchObject([{ freeBytes: 0, reservedBytes: 20 * GiB }]);
    read(ledger, 1, GiB, { '1': GiB });
    ledger.release('1', 2);
    expect(ledger.entries('gpu:0')).toMatchObject([{ isReleasing: true }]);
    expect(ledger.rooms()).toMatchObject([{ freeBytes: 70 * GiB, releasingBytes: 20 * GiB }]);
    expect(ledger.entries('gpu:9')).toEqual([]);
  });

  it('counts what others use as it is, and our jobs only once', () => {
    const ledger = new Ledger(one);
    read(ledger, 0, 10 * GiB);
    ledger.reserve('1', reservation(20 * GiB));
    read(ledger, 1, 25 * GiB, { '1': 15 * GiB });
    expect(ledger.rooms()[0]).toMatchObject({ otherProcessesBytes: 10 * GiB, freeBytes: 60 * GiB });
  });

  it('counts a job that takes more than it was promised with what it takes', () => {
    const ledger = new Ledger(one);
    read(ledger, 0, 0);
    ledger.reserve('1', reservation(20 * GiB));
    read(ledger, 1, 50 * GiB, { '1': 50 * GiB });
    expect(ledger.rooms()[0]).toMatchObject({ reservedBytes: 20 * GiB, freeBytes: 40 * GiB });
  });

  it('gives memory again only when a reading after the end shows that it came back', () => {
    const ledger = new Ledger(one);
    read(ledger, 0, 0);
    ledger.reserve('1', reservation(80 * GiB));
    read(ledger, 5, 60 * GiB, { '1': 60 * GiB });
    ledger.release('1', 6);
    expect(ledger.rooms()[0]).toMatchObject({ releasingBytes: 80 * GiB, freeBytes: 10 * GiB });
    // Taken before the end, and told late.
    read(ledger, 6, 0);
    expect(ledger.rooms()[0]).toMatchObject({ releasingBytes: 80 * GiB });
    // Still held by what is left of its processes.
    read(ledger, 7, 60 * GiB, { '1': 60 * GiB });
    expect(ledger.rooms()[0]).toMatchObject({ releasingBytes: 80 * GiB });
    read(ledger, 8, 0);
    expect(ledger.rooms()[0]).toMatchObject({ releasingBytes: 0, freeBytes: 90 * GiB });
  });

  it('counts memory a job left behind as other processes when its processes are gone', () => {
    const ledger = new Ledger(one);
    read(ledger, 0, 0);
    ledger.reserve('1', reservation(80 * GiB));
    ledger.release('1', 1);
    read(ledger, 2, 30 * GiB);
    expect(ledger.rooms()[0]).toMatchObject({ otherProcessesBytes: 30 * GiB, freeBytes: 60 * GiB });
  });

  it('waits where use by process is not visible, then counts the rest as other processes', () => {
    const ledger = new Ledger(one);
    const unseen = (atSeconds: number, usedBytes: number) =>
      ledger.observe('gpu:0', { atSeconds, usedBytes, jobs: 'unknown' });
    unseen(0, 5 * GiB);
    ledger.reserve('1', reservation(40 * GiB));
    unseen(1, 30 * GiB);
    expect(ledger.rooms()[0]).toMatchObject({ otherProcessesBytes: 5 * GiB, freeBytes: 45 * GiB });
    ledger.release('1', 2);
    unseen(3, 30 * GiB);
    expect(ledger.rooms()[0]?.releasingBytes).toBe(40 * GiB);
    unseen(4, 5 * GiB + 10 * MiB);
    expect(ledger.rooms()[0]?.releasingBytes).toBe(0);
    ledger.reserve('2', reservation(40 * GiB));
    ledger.release('2', 5);
    unseen(100, 30 * GiB);
    expect(ledger.rooms()[0]).toMatchObject({ otherProcessesBytes: 30 * GiB, releasingBytes: 0 });
  });

  it.each([
    [4, 64 * MiB, 0],
    [4, 64 * MiB + 1, 40 * GiB],
    [61, 30 * GiB, 40 * GiB],
    [62, 30 * GiB, 0],
  ])('after %i s with %i bytes more in use still waits for %i', (atSeconds, more, releasing) => {
    const ledger = new Ledger(one);
    const unseen = (at: number, usedBytes: number) =>
      ledger.observe('gpu:0', { atSeconds: at, usedBytes, jobs: 'unknown' });
    unseen(0, 5 * GiB);
    ledger.reserve('1', reservation(40 * GiB));
    unseen(1, 40 * GiB);
    ledger.release('1', 2);
    unseen(atSeconds, 5 * GiB + more);
    expect(ledger.rooms()[0]?.releasingBytes).toBe(releasing);
  });

  it('counts as other processes what no job of ours can use, where use by process is hidden', () => {
    const ledger = new Ledger(one);
    const others = (atSeconds: number, usedBytes: Known<number>) => {
      ledger.observe('gpu:0', { atSeconds, usedBytes, jobs: 'unknown' });
      return ledger.rooms()[0]?.otherProcessesBytes;
    };
    others(0, 5 * GiB);
    ledger.reserve('1', reservation(40 * GiB));
    ledger.reserve('2', reservation(20 * GiB));
    expect(others(1, 70 * GiB)).toBe(10 * GiB);
    // Without a figure the last one stands.
    expect(others(2, 'unknown')).toBe(10 * GiB);
    ledger.release('1', 3);
    // It did not come back, and no job is known to use it.
    expect(others(63, 50 * GiB)).toBe(50 * GiB);
    ledger.lose('gpu:9');
    expect(ledger.rooms()).toHaveLength(1);
  });

  it('promises several devices, or none of them', () => {
    const ledger = new Ledger([...one, { id: 'gpu:1', capacityBytes: 10 * GiB }]);
    for (const id of ['gpu:0', 'gpu:1']) ledger.observe(id, reading(0, 0));
    expect(ledger.reserve('1', reservation(20 * GiB, ['gpu:0', 'gpu:1']))).toBeUndefined();
    expect(ledger.rooms().map(({ reservedBytes }) => reservedBytes)).toEqual([0, 0]);
    expect(ledger.reserve('1', reservation(5 * GiB, ['gpu:0', 'gpu:0']))).toBeUndefined();
    expect(ledger.reserve('1', reservation(5 * GiB, ['gpu:0', 'gpu:1']))).toBeDefined();
    expect(ledger.reserve('1', reservation(GiB))).toBeUndefined();
    expect(() => ledger.reserve('2', reservation(1, ['gpu:7']))).toThrow(
      'There is no device gpu:7',
    );
  });

  it('takes in what runs after a restart, even where it fits no longer', () => {
    const ledger = new Ledger(one);
    ledger.restore('1', reservation(95 * GiB, ['gpu:0', 'gpu:9']));
    read(ledger, 0, 50 * GiB, { '1': 50 * GiB });
    expect(ledger.rooms()[0]).toMatchObject({ reservedBytes: 95 * GiB, freeBytes: 0 });
  });
});

/** A device as it really is, and jobs that need other than they were promised. */
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('submit' as const),
      ask: fc.integer({ min: 1, max: 60 }),
      uses: fc.integer({ min: 0, max: 80 }),
      gpus: fc.constantFrom(1, 1, 1, 2),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('grow' as const), pick: fc.nat(20) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      pick: fc.nat(20),
      leaves: fc.constantFrom(0, 0, 0, 5),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('others' as const),
      bytes: fc.integer({ min: 0, max: 30 }),
      device: fc.nat(1),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('read' as const),
      device: fc.nat(1),
      late: fc.boolean(),
    }),
  },
);

describe('the promises of the ledger', () => {
  it('hold whatever jobs do: submits, finishes, crashes, wrong estimates, other processes', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const ids = ['gpu:0', 'gpu:1'];
        const ledger = new Ledger(ids.map((id) => ({ id, capacityBytes: 100 })));
        const others = [0, 0];
        const jobs: {
          id: string;
          devices: string[];
          ask: number;
          will: number;
          used: number;
          state: 'runs' | 'dying' | 'gone';
        }[] = [];
        let at = 0;
        const truth = (device: number) => {
          const held = jobs.filter(
            ({ devices, state }) => state !== 'gone' && devices.includes(ids[device] ?? ''),
          );
          return {
            atSeconds: at,
            usedBytes: (others[device] ?? 0) + held.reduce((sum, { used }) => sum + used, 0),
            jobs: new Map(held.map(({ id, used }) => [id, used])),
          };
        };
        const observe = (device: number) => {
          ledger.observe(ids[device] ?? '', truth(device));
        };
        observe(0);
        observe(1);
        for (const now of steps) {
          at += 1;
          const running = jobs.filter(({ state }) => state === 'runs');
          switch (now.do) {
            case 'submit': {
              const before = ledger.rooms();
              const devices = ids.slice(0, now.gpus);
              const id = String(jobs.length);
              const fits = before
                .filter((room) => devices.includes(room.id))
                .every(({ freeBytes }) => freeBytes >= now.ask);
              expect(ledger.reserve(id, reservation(now.ask, devices)) !== undefined).toBe(fits);
              if (fits)
                jobs.push({ id, devices, ask: now.ask, will: now.uses, used: 0, state: 'runs' });
              else expect(ledger.rooms()).toEqual(before);
              break;
            }
            case 'grow': {
              const job = running[now.pick % Math.max(1, running.length)];
              if (job) job.used = job.will;
              break;
            }
            case 'end': {
              const job = running[now.pick % Math.max(1, running.length)];
              if (!job) break;
              ledger.release(job.id, at);
              job.state = now.leaves > 0 ? 'dying' : 'gone';
              break;
            }
            case 'others':
              others[now.device] = now.bytes;
              break;
            case 'read':
              if (!now.late) for (const job of jobs) if (job.state === 'dying') job.state = 'gone';
              observe(now.device);
              break;
          }
          for (const room of ledger.rooms()) {
            // Never past the load line, whatever was wrong.
            expect(room.reservedBytes + room.releasingBytes).toBeLessThanOrEqual(90);
            // All that runs is counted; what ended is counted until it was seen to be back.
            const ours = jobs.filter(({ devices }) => devices.includes(room.id));
            const promised = (list: typeof ours) => list.reduce((sum, { ask }) => sum + ask, 0);
            expect(room.reservedBytes).toBe(promised(ours.filter(({ state }) => state === 'runs')));
            expect(room.releasingBytes).toBeGreaterThanOrEqual(
              promised(ours.filter(({ state, used }) => state === 'dying' && used > 0)),
            );
          }
          if (now.do === 'read') {
            // Right after a reading the free bytes are really there, beside all that was promised.
            const room = ledger.rooms()[now.device];
            const { usedBytes, jobs: seen } = truth(now.device);
            const grown = jobs
              .filter(({ id, state }) => state === 'runs' && seen.has(id))
              .reduce((sum, { ask, used }) => sum + Math.max(0, ask - used), 0);
            expect(room?.freeBytes).toBeLessThanOrEqual(Math.max(0, 90 - usedBytes - grown));
          }
        }
        // Once all ended and the devices were read, all of it is there again.
        at += 1;
        for (const job of jobs) {
          ledger.release(job.id, at);
          job.state = 'gone';
        }
        at += 1;
        observe(0);
        observe(1);
        expect(ledger.rooms().map(({ freeBytes }) => freeBytes)).toEqual(
          others.map((bytes) => 90 - bytes),
        );
      }),
      { numRuns: 500 },
    );
  });
});
