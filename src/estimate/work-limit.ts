import { readFileSync } from 'node:fs';
import type { Known } from '../units/known.js';

export interface WorkLimit {
  /** Seconds of a processor; by the clock where these are unknown. */
  readonly seconds: number;
  /** Seconds by the clock, after which it ends in any case: it hangs, and uses no processor. */
  readonly clockSeconds: number;
}

/** Of Linux, on every machine that Node runs on. */
const ticksOfASecond = 100;
/** The last looks are so far apart, as a share of the limit. */
const closest = 0.05;

/**
 * Ends work that took too long of a processor. A machine with more to do than it has processors for does
 * not end it earlier. Gives back what stops the watch.
 *
 * @example
 * const stop = onWorkLimit({ seconds: 180, clockSeconds: 1800 }, processSeconds, () => worker.terminate());
 */
export function onWorkLimit(
  { seconds, clockSeconds }: WorkLimit,
  spent: () => Known<number>,
  end: () => void,
): () => void {
  const before = spent();
  let waited = 0;
  let timer: NodeJS.Timeout;
  const wait = (more: number) => {
    timer = setTimeout(() => {
      waited += more;
      const now = spent();
      const used = before === 'unknown' || now === 'unknown' ? waited : now - before;
      if (used >= seconds || waited >= clockSeconds) return end();
      wait(Math.min(Math.max(seconds - used, seconds * closest), clockSeconds - waited));
    }, more * 1000);
  };
  wait(Math.min(seconds, clockSeconds));
  return () => clearTimeout(timer);
}

/** Of all threads of this process: no less than one of them took. */
export function processSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Of another process, and of those that it started and waited for; unknown where there is no /proc. */
export function secondsOf(pid: number): Known<number> {
  try {
    // After the name, which may hold anything: the state is the first, user time the twelfth.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return fields.length < 15 || !Number.isSafeInteger(ticks) ? 'unknown' : ticks / ticksOfASecond;
  } catch {
    return 'unknown';
  }
}
