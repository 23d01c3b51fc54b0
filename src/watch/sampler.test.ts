import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Device, DeviceLost, type MemoryReading } from '../device/contract.js';
import { Failure } from '../failure.js';
import { createVirtualClock, type VirtualClock } from '../time/virtual-clock.js';
import { fakeDevice, memory } from './device.fake.js';
import { type Intervals, resolveIntervals } from './intervals.js';
import { runSampler, type SamplerOptions } from './sampler.js';

interface Run {
  readonly clock: VirtualClock;
  /** `kind id what@seconds`, in order. */
  readonly log: string[];
  readonly done: Promise<void>;
  stop(): void;
  times(kind: string, id?: string): number[];
}

function start(
  devices: readonly Device[],
  intervals: Partial<Intervals> = {},
  more: Partial<SamplerOptions> = {},
): Run {
  const clock = createVirtualClock();
  const controller = new AbortController();
  const seen: { kind: string; id: string; what: string; at: number }[] = [];
  const log: string[] = [];
  const tell = (kind: string, device: Device, what: unknown = ''): void => {
    const at = clock.seconds();
    seen.push({ kind, id: device.info.id, what: String(what), at });
    log.push(`${kind} ${device.info.id} ${String(what)}@${at}`);
  };
  const done = runSampler({
    devices,
    intervals: resolveIntervals({ intervalSeconds: 1, ...intervals }),
    clock,
    signal: controller.signal,
    events: {
      sample: (device) => tell('sample', device),
      processes: (device) => tell('processes', device),
      late: (device, missed) => tell('late', device, missed),
      appeared: (device) => tell('appeared', device),
      vanished: (device, reason) => tell('vanished', device, reason),
      note: (text) => log.push(text),
    },
    ...more,
  });
  return {
    clock,
    log,
    done,
    stop: () => controller.abort(),
    times: (kind, id = 'gpu:0') =>
      seen.filter((event) => event.kind === kind && event.id === id).map(({ at }) => at),
  };
}

/** Answers after `seconds`, by the clock that `run` has. */
function slow(id: string, run: () => Run, seconds: (call: number) => number): Device {
  let call = 0;
  return fakeDevice({
    id,
    async read(): Promise<MemoryReading> {
      const { clock } = run();
      await clock.waitUntil(clock.seconds() + seconds(call++));
      return memory(1);
    },
  });
}

const count = (length: number): number[] => Array.from({ length }, (_, index) => index);

describe('the intervals', () => {
  it('are 0.1 s, 1 s and 5 s unless told otherwise, and go down to 10 ms', () => {
    expect(resolveIntervals({})).toMatchObject({
      intervalSeconds: 0.1,
      processIntervalSeconds: 1,
      rescanSeconds: 5,
      durationSeconds: 0,
    });
    expect(resolveIntervals({ intervalSeconds: 0.01 }).intervalSeconds).toBe(0.01);
  });

  it('name the one that is bad', () => {
    for (const bad of [0.0099, 0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      for (const name of ['intervalSeconds', 'processIntervalSeconds', 'rescanSeconds'] as const) {
        expect(() => resolveIntervals({ [name]: bad })).toThrow(Failure);
        expect(() => resolveIntervals({ [name]: bad })).toThrow(name);
      }
    }
    expect(() => resolveIntervals({ durationSeconds: -1 })).toThrow(Failure);
  });
});

describe('the sampler', () => {
  it('samples at start + k * interval, as many as fit before the duration ends', async () => {
    const run = start([fakeDevice()], { intervalSeconds: 0.1, durationSeconds: 60 });
    await run.clock.advance(70);
    await run.done;
    expect(run.times('sample')).toEqual(count(600).map((tick) => tick * 0.1));
    expect(run.times('processes')).toEqual(count(60));
    expect(run.clock.waiting).toBe(0);
  });

  it('keeps one slow device from delaying another, and never reads it twice at once', async () => {
    let inFlight = 0;
    let most = 0;
    const run: Run = start(
      [
        fakeDevice({
          id: 'slow',
          async read() {
            most = Math.max(most, ++inFlight);
            await run.clock.waitUntil(run.clock.seconds() + 2.5);
            inFlight--;
            return memory(1);
          },
        }),
        fakeDevice({ id: 'fast' }),
      ],
      { durationSeconds: 10 },
    );
    await run.clock.advance(20);
    await run.done;
    expect(run.times('sample', 'fast')).toEqual(count(10));
    expect(run.times('sample', 'slow')).toEqual([2.5, 5.5, 8.5, 11.5]);
    expect(most).toBe(1);
  });

  it('tells every missed tick, without a flood', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.double({ min: 0, max: 30, noNaN: true }), { minLength: 1, maxLength: 20 }),
        async (delays) => {
          const run: Run = start(
            [
              slow(
                'slow',
                () => run,
                (call) => delays[call % delays.length] ?? 0,
              ),
            ],
            { durationSeconds: 100 },
          );
          await run.clock.advance(200);
          await run.done;
          const late = run.log
            .map((line) => /^late slow (\d+)@/.exec(line)?.[1])
            .filter((missed) => missed !== undefined);
          // A reading that the end found in flight was begun at a tick too.
          const begun = 100 - late.reduce((sum, missed) => sum + Number(missed), 0);
          const ended = run.times('sample', 'slow').length;
          expect(begun - ended).toBeOneOf([0, 1]);
          expect(late.length).toBeLessThanOrEqual(12);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('reads processes less often, and not again while they are being read', async () => {
    const run: Run = start(
      [
        fakeDevice({
          processes: async () => {
            await run.clock.waitUntil(run.clock.seconds() + 4.5);
            return [];
          },
        }),
      ],
      { intervalSeconds: 0.5, processIntervalSeconds: 2, durationSeconds: 20 },
    );
    await run.clock.advance(30);
    await run.done;
    expect(run.times('processes')).toEqual([4.5, 10.5, 16.5]);
  });

  it('gives processes to the sample after they were read, once', async () => {
    const carried: (number | undefined)[] = [];
    const run = start(
      [fakeDevice()],
      { durationSeconds: 4, processIntervalSeconds: 2 },
      {
        events: {
          sample: (_device, _reading, processes) =>
            carried.push(processes === 'unknown' ? -1 : processes?.length),
          processes() {},
          late() {},
          appeared() {},
          vanished() {},
          note() {},
        },
      },
    );
    await run.clock.advance(10);
    await run.done;
    expect(carried).toEqual([undefined, 0, undefined, 0]);
  });

  it('lets processes that cannot be read be unknown, without losing the device', async () => {
    const run = start([fakeDevice({ processes: () => Promise.reject(new Error('no')) })], {
      durationSeconds: 5,
    });
    await run.clock.advance(10);
    await run.done;
    expect(run.times('sample')).toEqual(count(5));
    expect(run.times('processes')).toEqual(count(5));
  });

  it('ends at once when aborted, though a reading hangs', async () => {
    const hung = fakeDevice({ read: () => new Promise(() => {}) });
    const run = start([hung], { durationSeconds: 1000 });
    await run.clock.advance(3);
    run.stop();
    await run.done;
    expect(run.clock.waiting).toBe(0);
    expect(run.clock.seconds()).toBe(3);
  });

  it('waits a moment, not for ever, for a reading that the end finds in flight', async () => {
    const run: Run = start(
      [
        slow(
          'slow',
          () => run,
          () => 1.5,
        ),
        fakeDevice({ read: () => new Promise(() => {}) }),
      ],
      { durationSeconds: 1 },
    );
    await run.clock.advance(2.9);
    expect(run.times('sample', 'slow')).toEqual([1.5]);
    await run.clock.advance(0.2);
    await run.done;
    expect(run.log.at(-1)).toBe('sample slow @1.5');
  });

  it('rejects when an event throws: that is a fault of ours, not of the device', async () => {
    for (const read of [() => memory(1), () => Promise.resolve(memory(1))]) {
      const run = start(
        [fakeDevice({ read })],
        {},
        {
          events: {
            sample() {
              throw new RangeError('ours');
            },
            processes() {},
            late() {},
            appeared() {},
            vanished() {},
            note() {},
          },
        },
      );
      const [outcome] = await Promise.allSettled([run.done, run.clock.advance(2)]);
      expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'ours' } });
      expect(run.clock.waiting).toBe(0);
    }
  });
});

describe('a device that goes and comes', () => {
  it('is told once when it is lost, the rest goes on, and it is taken up when it answers', async () => {
    const run: Run = start(
      [
        fakeDevice({
          read() {
            const at = run.clock.seconds();
            if (at > 2 && at < 12) throw new DeviceLost('gpu:0', 'fell off the bus');
            return memory(1);
          },
        }),
        fakeDevice({ id: 'host' }),
      ],
      { durationSeconds: 20, processIntervalSeconds: 100 },
    );
    await run.clock.advance(30);
    await run.done;
    expect(run.log.filter((line) => !/^(sample|processes)/.test(line))).toEqual([
      'vanished gpu:0 fell off the bus@3',
      'appeared gpu:0 @16',
    ]);
    expect(run.times('sample')).toEqual([0, 1, 2, 16, 17, 18, 19]);
    expect(run.times('sample', 'host')).toEqual(count(20));
  });

  it('may fail twice in a row for another reason, not three times', async () => {
    const bad = new Set([2, 3, 6, 7, 8]);
    const run: Run = start(
      [
        fakeDevice({
          read: () =>
            bad.has(run.clock.seconds())
              ? Promise.reject(new Error('driver is busy'))
              : Promise.resolve(memory(1)),
        }),
      ],
      { durationSeconds: 10, rescanSeconds: 100 },
    );
    await run.clock.advance(20);
    await run.done;
    expect(run.times('sample')).toEqual([0, 1, 4, 5]);
    expect(run.log).toContain('vanished gpu:0 driver is busy@8');
  });

  it('follows what a rescan finds, and survives a rescan that fails or hangs', async () => {
    const second = fakeDevice({ id: 'gpu:1', uuid: 'GPU-1' });
    const again = fakeDevice({ id: 'gpu:0', uuid: 'GPU-1' });
    const answers = [
      () => Promise.resolve({ appeared: [second], vanished: [] }),
      () => Promise.reject(new Error('driver unloaded')),
      () => Promise.resolve({ appeared: [], vanished: [second] }),
      () => Promise.resolve({ appeared: [again], vanished: [] }),
      () => new Promise<never>(() => {}),
    ];
    let asked = 0;
    const run = start(
      [],
      { durationSeconds: 40, intervalSeconds: 2 },
      { rescan: async () => (await answers[asked++]?.()) ?? { appeared: [], vanished: [] } },
    );
    await run.clock.advance(50);
    await run.done;
    expect(run.log.filter((line) => !/^(sample|processes)/.test(line))).toEqual([
      'appeared gpu:1 @5',
      'Looking for devices failed: Error: driver unloaded',
      'vanished gpu:1 It is no longer listed.@15',
      'appeared gpu:0 @20',
    ]);
    expect(run.times('sample', 'gpu:1')).toEqual([6, 8, 10, 12, 14]);
    expect(run.times('sample', 'gpu:0').at(-1)).toBe(38);
    // The one that hangs is waited for, not asked over and over.
    expect(asked).toBe(5);
  });

  it('is told gone once, when both its reading and the rescan say so', async () => {
    const device = fakeDevice({
      read() {
        throw new DeviceLost('gpu:0', 'lost');
      },
    });
    let asked = 0;
    const run = start(
      [device],
      { durationSeconds: 30 },
      { rescan: async () => ({ appeared: [], vanished: ++asked === 2 ? [device] : [] }) },
    );
    await run.clock.advance(40);
    await run.done;
    expect(run.log.filter((line) => line.startsWith('vanished'))).toEqual([
      'vanished gpu:0 lost@0',
    ]);
  });
});
