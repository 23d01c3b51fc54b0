import { readFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { checkOptions, number } from '../units/arguments.js';

/** Time as a port: everything that waits or dates takes one, so that tests run in virtual time. */
export interface Clock {
  /** Seconds on a clock that never goes back; its zero means nothing. */
  seconds(): number;
  /** Milliseconds since 1970, for dates that people read. */
  epochMs(): number;
  /**
   * How long the machine has been running, on a clock that is the same for all its processes, and a
   * name for this run of it. Undefined, or left out, where that cannot be told.
   */
  uptime?(): { readonly boot: string; readonly seconds: number } | undefined;
  /** Resolves when `seconds()` reaches `at` (at once if it has), or when `signal` aborts. */
  waitUntil(at: number, signal?: AbortSignal): Promise<void>;
}

/** The kernel gives each start of the machine a name; other systems than Linux do not. */
function bootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

export const systemClock: Clock = {
  seconds: () => performance.now() / 1000,
  epochMs: () => Date.now(),
  uptime() {
    const boot = bootId();
    if (boot === undefined) return undefined;
    const [seconds, nanoseconds] = process.hrtime();
    return { boot, seconds: seconds + nanoseconds / 1e9 };
  },
  waitUntil(at, signal) {
    return new Promise((resolve) => {
      const waiting = signal && waitingFor(signal);
      let timer: NodeJS.Timeout | undefined;
      const end = (): void => {
        clearTimeout(timer);
        waiting?.delete(end);
        resolve();
      };
      const look = (): void => {
        // Rounded up, so that one wake is enough; setTimeout takes at most 2^31 - 1 ms.
        const left = Math.ceil(at * 1000 - performance.now());
        if (left <= 0 || signal?.aborted) end();
        else timer = setTimeout(look, Math.min(left, 60_000));
      };
      waiting?.add(end);
      look();
    });
  },
};

/**
 * Those who wait under a signal. It is listened to once, not anew at every wait: at ten waits a
 * second that would be a good part of what watching costs.
 */
const waitingBySignal = new WeakMap<AbortSignal, Set<() => void>>();

function waitingFor(signal: AbortSignal): Set<() => void> {
  const known = waitingBySignal.get(signal);
  if (known) return known;
  const waiting = new Set<() => void>();
  waitingBySignal.set(signal, waiting);
  signal.addEventListener('abort', () => waiting.forEach((end) => end()), { once: true });
  return waiting;
}

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
