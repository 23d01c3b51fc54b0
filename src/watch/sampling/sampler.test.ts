import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVirtualClock, systemClock } from '../../time/clock.js';
import { fakeDevice, memory } from '../fake-device-for-tests.js';
import { everyTick } from './sampler.js';
import { type SamplerRun, slowDevice, startSampler } from './sampler-for-tests.js';

const count = (length: number): number[] => Array.from({ length }, (_, index) => index);

describe('the sampler', () => {
  it('samples at start + k * interval, as many as fit before the duration ends', async () => {
    const run = startSampler([fakeDevice()], { intervalSeconds: 0.1, durationSeconds: 60 });
    await run.clock.advance(70);
    await run.done;
    expect(run.times('sample')).toEqual(count(600).map((tick) => tick * 0.1));
    expect(run.times('processes')).toEqual(count(60));
    expect(run.clock.waiting).toBe(0);
  });

  it('keeps one slow device from delaying another, and never reads it twice at once', async () => {
    let inFlight = 0;
    let most = 0;
    const run: SamplerRun = startSampler(
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
          const run: SamplerRun = startSampler(
            [
              slowDevice(
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
    const run: SamplerRun = startSampler(
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
    const run = startSampler(
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
    const run = startSampler([fakeDevice({ processes: () => Promise.reject(new Error('no')) })], {
      durationSeconds: 5,
    });
    await run.clock.advance(10);
    await run.done;
    expect(run.times('sample')).toEqual(count(5));
    expect(run.times('processes')).toEqual(count(5));
  });

  it('ends at once when aborted, though a reading hangs', async () => {
    const hung = fakeDevice({ read: () => new Promise(() => {}) });
    const run = startSampler([hung], { durationSeconds: 1000 });
    await run.clock.advance(3);
    run.stop();
    await run.done;
    expect(run.clock.waiting).toBe(0);
    expect(run.clock.seconds()).toBe(3);
  });

  it('waits a moment, not for ever, for a reading that the end finds in flight', async () => {
    const run: SamplerRun = startSampler(
      [
        slowDevice(
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
      const run = startSampler(
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

describe('everyTick', () => {
  it('is due at start + k * interval exactly, whatever the work takes below an interval', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.double({ min: 0.01, max: 60, noNaN: true }),
        fc.double({ min: 0, max: 0.9, noNaN: true }),
        async (intervalSeconds, share) => {
          const clock = createVirtualClock();
          await clock.advance(12.34);
          const startSeconds = clock.seconds();
          const seen: number[] = [];
          const { signal } = new AbortController();
          const running = everyTick(
            { clock, startSeconds, intervalSeconds, signal, endTick: 20 },
            (missed) => {
              expect(missed).toBe(0);
              seen.push(clock.seconds());
              return clock.waitUntil(clock.seconds() + share * intervalSeconds);
            },
          );
          await clock.advance(21 * intervalSeconds);
          await running;
          expect(seen).toEqual(
            Array.from({ length: 20 }, (_, tick) => startSeconds + tick * intervalSeconds),
          );
        },
      ),
      { numRuns: 30 },
    );
  });

  it('leaves out the ticks that pass during long work, counts them, and stays on the grid', async () => {
    const clock = createVirtualClock();
    const controller = new AbortController();
    const seen: [number, number][] = [];
    const running = everyTick(
      { clock, startSeconds: 0, intervalSeconds: 1, signal: controller.signal },
      (missed) => {
        seen.push([clock.seconds(), missed]);
        return clock.waitUntil(clock.seconds() + 3.5);
      },
    );
    await clock.advance(9);
    controller.abort();
    await clock.advance(10);
    await running;
    expect(seen).toEqual([
      [0, 0],
      [4, 3],
      [8, 3],
    ]);
  });

  it('does not replay a burst after the machine was stopped', async () => {
    // Waits end late, as they do after a suspend.
    const clock = createVirtualClock();
    let stopped = 0;
    const stalling = {
      seconds: () => clock.seconds() + stopped,
      epochMs: () => clock.epochMs(),
      waitUntil: (at: number, signal?: AbortSignal) => clock.waitUntil(at - stopped, signal),
    };
    const controller = new AbortController();
    const missedAtTicks: number[] = [];
    const running = everyTick(
      { clock: stalling, startSeconds: 0, intervalSeconds: 1, signal: controller.signal },
      (missed) => {
        missedAtTicks.push(missed);
      },
    );
    await clock.advance(2.5);
    stopped = 3600;
    await clock.advance(2);
    controller.abort();
    await running;
    expect(missedAtTicks).toEqual([0, 0, 0, 3600, 0]);
  });

  it('lets the rest of the process run when the work blocks longer than the interval', async () => {
    const controller = new AbortController();
    let ticks = 0;
    setTimeout(() => controller.abort(), 30);
    await everyTick(
      {
        clock: systemClock,
        startSeconds: systemClock.seconds(),
        intervalSeconds: 0.01,
        signal: controller.signal,
      },
      () => {
        ticks++;
        const end = performance.now() + 15;
        while (performance.now() < end);
      },
    );
    expect(ticks).toBeGreaterThan(0);
  });
});
