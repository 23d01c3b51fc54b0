import { setTimeout as delay } from 'node:timers/promises';

/** Time as a port: everything that waits or dates takes one, so that tests run in virtual time. */
export interface Clock {
  /** Seconds on a clock that never goes back; its zero means nothing. */
  seconds(): number;
  /** Milliseconds since 1970, for dates that people read. */
  epochMs(): number;
  /** Resolves when `seconds()` reaches `at` (at once if it has), or when `signal` aborts. */
  waitUntil(at: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  seconds: () => performance.now() / 1000,
  epochMs: () => Date.now(),
  async waitUntil(at, signal) {
    // setTimeout may fire up to a millisecond early and takes at most 2^31 - 1 ms, so ask again.
    for (;;) {
      const left = at * 1000 - performance.now();
      if (left <= 0 || signal?.aborted) return;
      try {
        await delay(Math.min(left, 60_000), undefined, signal ? { signal } : {});
      } catch (error) {
        if (signal?.aborted) return;
        throw error;
      }
    }
  },
};
