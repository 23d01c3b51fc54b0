import { type Discovery, discoverDevices } from '../device/discover.js';
import type { Device } from '../device/types.js';
import { type Clock, systemClock } from '../time/clock.js';
import { resolveThresholds, type ThresholdSettings } from './alerts/alert-thresholds.js';
import { createAlerts } from './alerts/alerts.js';
import { type AlertSink, deliverToCallback } from './delivery/deliver.js';
import { Delivery } from './delivery/delivery.js';
import { createDiagnosis, type Diagnosis } from './diagnosis/diagnose.js';
import { EventQueue } from './event-queue.js';
import type { ThinningSizes } from './history/thinning.js';
import { Notes } from './notes.js';
import { createObserver } from './observer.js';
import { resolveIntervals } from './sampling/intervals.js';
import { deviceKey } from './sampling/roster.js';
import { runSampler } from './sampling/sampler.js';
import type { Alert, DeviceState, WatchEvent } from './types.js';

/** Samples that wait for a slow consumer: 100 s of one device at 10 Hz. */
const defaultQueueLimit = 1000;

export interface WatchOptions {
  /** Only these. With `discovery` too, they are a choice from it and may come and go. */
  readonly devices?: readonly Device[];
  /** Whose devices to watch; it stays open. Left out, this machine's are found. */
  readonly discovery?: Discovery;
  /** Between two samples of a device: 0.1 unless told otherwise, 0.01 at least. */
  readonly intervalSeconds?: number;
  /** Between two readings of the processes of a device: 1 unless told otherwise. */
  readonly processIntervalSeconds?: number;
  /** Between two looks for devices that appeared or vanished: 5 unless told otherwise. */
  readonly rescanSeconds?: number;
  /** How long to watch; until stopped when 0 or left out. */
  readonly durationSeconds?: number;
  readonly thresholds?: ThresholdSettings;
  /** Ends the watch cleanly when it aborts. */
  readonly signal?: AbortSignal;
  readonly onAlert?: (alert: Alert) => void | Promise<void>;
  /** Where alerts go, besides the iterator. The watch closes them at its end. */
  readonly deliver?: readonly AlertSink[];
  /** How many samples may wait for a slow consumer; the oldest are dropped first. */
  readonly queueLimit?: number;
  readonly clock?: Clock;
  readonly createDiagnosis?: () => Diagnosis;
  /** How much of the past is kept of each device: up to 5 MB unless told otherwise. */
  readonly historySizes?: ThinningSizes;
}

/** A watch under way: an iterator of what happens, and the state of each device so far. */
export interface Watch extends AsyncIterable<WatchEvent, undefined> {
  /** The devices with at least one sample; views that change as samples come in. */
  states(): readonly DeviceState[];
  /** What could not be seen, found or delivered, in sentences. */
  notes(): readonly string[];
  /** Samples that a slow consumer of the iterator did not get. */
  readonly droppedSamples: number;
  /** Resolves when all is over: nothing is read, no timer, no child process is left. */
  readonly closed: Promise<void>;
}

/**
 * Watches memory from now on, whether the answer is iterated or not. Leaving the loop, or
 * aborting `signal`, ends it and lets the process exit.
 *
 * @example
 * for await (const event of watch({ intervalSeconds: 1, durationSeconds: 60 })) {
 *   if (event.type === 'alert') console.log(event.alert.message);
 *   if (event.type === 'sample') console.log(event.sample.usedBytes, event.state.forecast.risk);
 * }
 */
export function watch(options: WatchOptions = {}): Watch {
  const intervals = resolveIntervals(options);
  const thresholds = resolveThresholds(options.thresholds);
  const clock = options.clock ?? systemClock;
  const queue = new EventQueue(options.queueLimit ?? defaultQueueLimit);
  const notes = new Notes();
  const note = (text: string): void => notes.add(text);
  const callback = options.onAlert ? [deliverToCallback(options.onAlert)] : [];
  const delivery = new Delivery([...callback, ...(options.deliver ?? [])], note);
  const stopping = new AbortController();
  let startSeconds = clock.seconds();
  let discovery = options.discovery;
  let discovering = false;

  const observer = createObserver({
    now: () => ({ atSeconds: clock.seconds() - startSeconds, epochMs: clock.epochMs() }),
    alerts: createAlerts(thresholds),
    createDiagnosis: options.createDiagnosis ?? createDiagnosis,
    historySizes: options.historySizes,
    emit: (event) => queue.push(event),
    deliver: (alert) => delivery.deliver(alert),
    note,
  });

  function stop(): void {
    stopping.abort();
    // A driver that hangs while devices are looked for must not hold up the consumer.
    if (discovering) queue.end();
  }

  async function discover(): Promise<Discovery> {
    discovering = true;
    try {
      return await discoverDevices({ clock });
    } finally {
      discovering = false;
    }
  }

  async function sample(): Promise<void> {
    // What is found by us is closed by us.
    const own = options.devices || discovery ? undefined : await discover();
    discovery ??= own;
    try {
      startSeconds = clock.seconds();
      await runSampler({
        devices: options.devices ?? discovery?.devices ?? [],
        ...(discovery && { rescan: rescanOf(discovery, options.devices) }),
        intervals,
        clock,
        signal: stopping.signal,
        events: observer.events,
      });
    } finally {
      own?.close();
    }
  }

  async function run(): Promise<void> {
    if (options.signal?.aborted) stop();
    options.signal?.addEventListener('abort', stop, { once: true });
    try {
      if (!stopping.signal.aborted) await sample();
      queue.end();
    } catch (error) {
      queue.end({ error });
      throw error;
    } finally {
      await delivery.close(clock, stopping.signal);
      options.signal?.removeEventListener('abort', stop);
    }
  }

  const closed = run();
  // Who iterates is told of a failure there; without this, Node would end the process for it.
  closed.catch(() => {});
  const iterator: AsyncIterator<WatchEvent, undefined> = {
    next: () => queue.take(),
    async return() {
      stop();
      queue.end({ discard: true });
      await closed.catch(() => {});
      return { done: true, value: undefined };
    },
  };
  return {
    states: () => observer.states(),
    notes: () => [...(discovery?.notes ?? []), ...notes.all()],
    get droppedSamples() {
      return queue.droppedSamples;
    },
    closed,
    [Symbol.asyncIterator]: () => iterator,
  };
}

/** Of a choice, only the chosen come back; what vanishes was either chosen or is not watched. */
function rescanOf(discovery: Discovery, chosen: readonly Device[] | undefined) {
  const keys = chosen && new Set(chosen.map(({ info }) => deviceKey(info)));
  const wanted = ({ info }: Device): boolean => keys?.has(deviceKey(info)) ?? true;
  return async () => {
    const { appeared, vanished } = await discovery.rescan();
    return { appeared: appeared.filter(wanted), vanished };
  };
}
