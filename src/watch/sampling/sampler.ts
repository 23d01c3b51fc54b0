import type { Device } from '../../device/types.js';
import type { Clock } from '../../time/clock.js';
import { everyTick } from '../../time/ticks.js';
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
