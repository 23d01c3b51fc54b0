import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Clock } from '../../time/clock.js';

/**
 * Node lets the garbage of a process that does little grow to nearly as much as it holds, some 4 MB here.
 * A collection takes some 20 ms: once a minute that is nothing.
 */
const everySeconds = 60;

/** Collects garbage once a minute, until `signal` aborts. */
export async function collectRegularly(
  clock: Clock,
  signal: AbortSignal,
  collect: () => void = collector(),
): Promise<void> {
  for (;;) {
    await clock.waitUntil(clock.seconds() + everySeconds, signal);
    if (signal.aborted) return;
    collect();
  }
}

/** The collector of V8, which only a new context shows. */
export function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const found: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return () => {
    if (typeof found === 'function') found();
  };
}
