import { readFileSync } from 'node:fs';

/**
 * Milliseconds that this thread has worked. On a machine that others use, too, the clock on the wall
 * measures them; Linux counts a thread's own time, to a few milliseconds. Elsewhere it is the clock.
 */
export function threadMilliseconds() {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return performance.now();
  }
}
