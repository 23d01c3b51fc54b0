import type { Device } from '../../device/device.js';
import type { Clock } from '../../time/clock.js';
import type { Intervals } from './intervals.js';
import { type DeviceChanges, Roster, type RosterEvents } from './roster.js';

/** A reading in flight when the duration ends may still come in, for this long. */
const graceSeconds = 2;

export interface SamplerEvents extends Omit<RosterEvents, 'broken'> {
  /** Something a person should know that stops nothing. */
  note(text: string): void;
}

export interface SamplerOptions {
  readonly devices: readonly Device[];
  /** Without it the devices are a fixed list. */
  readonly rescan?: () => Promise<DeviceChanges>;
  readonly intervals: Intervals;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly events: SamplerEvents;
}

/**
 * Samples devices until the duration is over or `signal` aborts. All are read at the same ticks,
 * and none waits for another. Rejects only when one of the events throws.
 *
 * @example
 * await runSampler({ devices, intervals: resolveIntervals({}), clock: systemClock, signal, events });
 */
export async function runSampler(options: SamplerOptions): Promise<void> {
  const { clock, events, intervals } = options;
  const startSeconds = clock.seconds();
  const ending = new AbortController();
  const end = (): void => ending.abort();
  let fault: { readonly error: unknown } | undefined;
  const broken = (error: unknown): void => {
    fault ??= { error };
    end();
  };
  const roster = new Roster({ ...events, broken }, () => clock.seconds());

  let scanning = false;
  async function rescan(): Promise<void> {
    // Never two at a time, and the loop does not wait: a hung driver must not hold up the end.
    if (scanning) return;
    scanning = true;
    const changes = await options.rescan?.().catch((error: unknown) => {
      events.note(`Looking for devices failed: ${String(error)}`);
    });
    scanning = false;
    if (ending.signal.aborted) return;
    if (changes) roster.apply(changes);
    roster.retryLost();
  }

  async function endAfterDuration(): Promise<void> {
    await clock.waitUntil(startSeconds + intervals.durationSeconds, ending.signal);
    const grace = clock.waitUntil(clock.seconds() + graceSeconds, ending.signal);
    await Promise.race([roster.idle(), grace]);
    end();
  }

  const limited = intervals.durationSeconds > 0;
  /** Only ticks that come before the end of the duration: 60 s at 10 Hz are 600 samples. */
  function loop(
    intervalSeconds: number,
    firstTick: number,
    work: (missed: number) => void,
  ): Promise<void> {
    const endTick = Math.max(1, Math.ceil(intervals.durationSeconds / intervalSeconds - 1e-6));
    const { signal } = ending;
    return everyTick(
      { clock, startSeconds, intervalSeconds, signal, firstTick, ...(limited && { endTick }) },
      work,
    );
  }

  if (options.signal.aborted) return;
  options.signal.addEventListener('abort', end, { once: true });
  for (const device of options.devices) roster.take(device);
  try {
    await Promise.all([
      loop(intervals.intervalSeconds, 0, (missed) => roster.tick(missed)),
      loop(intervals.processIntervalSeconds, 0, () => roster.readProcesses()),
      loop(intervals.rescanSeconds, 1, () => void rescan().catch(broken)),
      limited && endAfterDuration(),
    ]);
  } finally {
    end();
    options.signal.removeEventListener('abort', end);
    roster.stop();
  }
  if (fault) throw fault.error;
}

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
