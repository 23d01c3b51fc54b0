import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { systemClock } from './clock.js';
import { everyTick } from './ticks.js';
import { createVirtualClock } from './virtual-clock.js';

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
