import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeDevice, memory } from '../fake-device-for-tests.js';
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
