import type { Clock } from './clock.js';

/** Times are sums of floats: a tick that is due in less than this share of an interval is due. */
const tolerance = 1e-6;

export interface TickOptions {
  readonly clock: Clock;
  /** Tick k is due at `startSeconds + k * intervalSeconds`, however long the work took. */
  readonly startSeconds: number;
  readonly intervalSeconds: number;
  readonly signal: AbortSignal;
  /** The number of the first tick, 0 unless told otherwise. */
  readonly firstTick?: number;
  /** The tick of this number and all after it are left out. */
  readonly endTick?: number;
}

/**
 * Calls `work` at every tick until `signal` aborts, and never drifts. Ticks that passed while the
 * work ran, or while the process or the machine was stopped, are left out, not made up for:
 * `missed` says how many. Work that answers with a promise is waited for.
 *
 * @example
 * await everyTick({ clock, startSeconds: clock.seconds(), intervalSeconds: 5, signal }, () => look());
 */
export async function everyTick(
  options: TickOptions,
  work: (missed: number) => void | Promise<void>,
): Promise<void> {
  const { clock, startSeconds, intervalSeconds, signal } = options;
  const endTick = options.endTick ?? Number.POSITIVE_INFINITY;
  const reached = (): number =>
    Math.floor((clock.seconds() - startSeconds) / intervalSeconds + tolerance);
  let next = options.firstTick ?? 0;
  let last = next - 1;
  while (next < endTick) {
    await clock.waitUntil(startSeconds + next * intervalSeconds, signal);
    if (signal.aborted) return;
    const tick = Math.max(next, reached());
    if (tick >= endTick) return;
    const working = work(tick - last - 1);
    if (working) await working;
    last = tick;
    // Always a tick still to come: work that takes longer than the interval would otherwise go
    // from one to the next without a pause, and nothing else in the process would run.
    next = Math.max(tick, reached()) + 1;
  }
}
