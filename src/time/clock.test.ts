import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVirtualClock, systemClock } from './clock.js';

describe('systemClock', () => {
  it('waits until the time is reached, never less', async () => {
    const at = systemClock.seconds() + 0.03;
    await systemClock.waitUntil(at);
    expect(systemClock.seconds()).toBeGreaterThanOrEqual(at);
  });

  it('does not wait for what has passed', async () => {
    await systemClock.waitUntil(systemClock.seconds() - 1);
    expect(systemClock.epochMs()).toBeGreaterThan(0);
  });

  it('ends every wait when its signal aborts, and waits no more under it', async () => {
    const ending = new AbortController();
    const later = systemClock.seconds() + 3600;
    const waits = [1, 2, 3].map(() => systemClock.waitUntil(later, ending.signal));
    const other = systemClock.waitUntil(systemClock.seconds() + 0.01);
    ending.abort();
    await Promise.all([...waits, other, systemClock.waitUntil(later, ending.signal)]);
    expect(systemClock.seconds()).toBeLessThan(later);
  });
});

describe('the virtual clock', () => {
  it('stands still until it is told to go on', async () => {
    const clock = createVirtualClock({ epochMs: 1000 });
    let woken = false;
    const wait = async (): Promise<void> => {
      await clock.waitUntil(5);
      woken = true;
    };
    const waiting = wait();
    await clock.advance(4.999);
    expect(woken).toBe(false);
    await clock.advance(0.001);
    await waiting;
    expect(woken).toBe(true);
    expect(clock.seconds()).toBe(5);
    expect(clock.epochMs()).toBe(6000);
  });

  it('wakes every wait at its own moment, in the order of time', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.double({ min: 0, max: 100, noNaN: true }), { maxLength: 30 }),
        async (moments) => {
          const clock = createVirtualClock();
          const seen: number[] = [];
          for (const moment of moments) {
            void clock.waitUntil(moment).then(() => seen.push(clock.seconds()));
          }
          await clock.advance(100);
          expect(seen).toEqual(moments.toSorted((a, b) => a - b));
          expect(clock.waiting).toBe(0);
        },
      ),
    );
  });

  it('lets a chain of waits run to its end within one advance', async () => {
    const clock = createVirtualClock();
    const seen: number[] = [];
    async function loop(): Promise<void> {
      for (let tick = 1; tick <= 5; tick++) {
        await clock.waitUntil(tick);
        seen.push(clock.seconds());
      }
    }
    const running = loop();
    await clock.advance(10);
    await running;
    expect(seen).toEqual([1, 2, 3, 4, 5]);
    expect(clock.seconds()).toBe(10);
  });

  it('gives up a wait when its signal aborts, and an aborted signal does not wait', async () => {
    const clock = createVirtualClock();
    const controller = new AbortController();
    const waiting = clock.waitUntil(1e9, controller.signal);
    expect(clock.waiting).toBe(1);
    controller.abort();
    await waiting;
    await clock.waitUntil(1e9, controller.signal);
    expect(clock.waiting).toBe(0);
    expect(clock.seconds()).toBe(0);
  });
});
