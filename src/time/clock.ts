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
  waitUntil(at, signal) {
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', end);
        resolve();
      };
      const look = (): void => {
        // Rounded up, so that one wake is enough; setTimeout takes at most 2^31 - 1 ms.
        const left = Math.ceil(at * 1000 - performance.now());
        if (left <= 0 || signal?.aborted) end();
        else timer = setTimeout(look, Math.min(left, 60_000));
      };
      signal?.addEventListener('abort', end);
      look();
    });
  },
};
