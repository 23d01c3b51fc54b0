import { readFileSync } from 'node:fs';

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
