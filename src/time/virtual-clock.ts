import { setImmediate as turn } from 'node:timers/promises';
import { checkOptions, number } from '../units/arguments.js';
import type { Clock } from './clock.js';

/** A clock that stands still until it is told to go on. */
export interface VirtualClock extends Clock {
  /**
   * Goes on by `seconds`. Whatever waits for a moment on the way is woken at that moment, in the
   * order of time, and everything it sets off settles before time moves again.
   */
  advance(seconds: number): Promise<void>;
  /** Sets the date, as a person or a time server does; no time passes. */
  jump(seconds: number): void;
  /** How many waits are pending: 0 after a clean end. */
  readonly waiting: number;
}

interface Waiter {
  readonly at: number;
  readonly wake: () => void;
}

/**
 * Time for tests: a week of it passes in seconds, and nothing depends on how busy the machine is.
 *
 * @example
 * const clock = createVirtualClock();
 * const done = clock.waitUntil(3600);
 * await clock.advance(3600);
 * await done;
 */
export function createVirtualClock(options: { epochMs?: number } = {}): VirtualClock {
  checkOptions('createVirtualClock', options, { epochMs: number });
  let epochMs = options.epochMs ?? Date.UTC(2025, 0, 1);
  // Sorted by time; of equal times the one that asked first comes first.
  const waiters: Waiter[] = [];
  let now = 0;

  function insert(waiter: Waiter): void {
    let place = waiters.length;
    while (place > 0 && (waiters[place - 1]?.at ?? 0) > waiter.at) place--;
    waiters.splice(place, 0, waiter);
  }

  return {
    seconds: () => now,
    epochMs: () => epochMs + Math.round(now * 1000),
    uptime: () => ({ boot: 'virtual', seconds: now }),
    jump(seconds) {
      epochMs += seconds * 1000;
    },
    get waiting() {
      return waiters.length;
    },
    waitUntil(at, signal) {
      if (at <= now || signal?.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const waiter: Waiter = {
          at,
          wake() {
            signal?.removeEventListener('abort', abandon);
            resolve();
          },
        };
        const abandon = (): void => {
          waiters.splice(waiters.indexOf(waiter), 1);
          waiter.wake();
        };
        signal?.addEventListener('abort', abandon, { once: true });
        insert(waiter);
      });
    },
    async advance(seconds) {
      const end = now + seconds;
      // What was begun before the call settles first, so that its waits are on the list.
      await turn();
      for (let next = waiters[0]; next && next.at <= end; next = waiters[0]) {
        now = next.at;
        while (waiters[0] && waiters[0].at <= now) waiters.shift()?.wake();
        await turn();
      }
      now = end;
    },
  };
}
