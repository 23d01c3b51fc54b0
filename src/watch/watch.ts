import { type Discovery, discoverDevices } from '../device/discover.js';
import type { Device, DeviceInfo, MemoryReading } from '../device/types.js';
import { type Clock, systemClock } from '../time/clock.js';
import { callable, checkOptions, elsewhere, list, object, whole } from '../units/arguments.js';
import { resolveThresholds, type ThresholdSettings } from './alerts/alert-thresholds.js';
import { type Alerts, createAlerts, type Instant } from './alerts/alerts.js';
import { type AlertSink, deliverToCallback } from './delivery/deliver.js';
import { createDiagnosis, type Diagnosis } from './diagnosis/diagnose.js';
import type { ThinningSizes } from './history/thinning.js';
import { resolveIntervals } from './sampling/intervals.js';
import { deviceKey } from './sampling/roster.js';
import { runSampler, type SamplerEvents } from './sampling/sampler.js';
import type { Alert, DeviceState, Sample, WatchEvent } from './types.js';
import { WatchedDevice } from './watched-device.js';

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

const watchRules = {
  devices: list,
  discovery: object,
  intervalSeconds: elsewhere,
  processIntervalSeconds: elsewhere,
  rescanSeconds: elsewhere,
  durationSeconds: elsewhere,
  thresholds: elsewhere,
  signal: object,
  onAlert: callable,
  deliver: list,
  queueLimit: whole(1),
  clock: object,
  createDiagnosis: callable,
  historySizes: object,
};

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
  checkOptions('watch', options, watchRules);
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
    createDiagnosis: options.createDiagnosis ?? (() => createDiagnosis({ costs: thresholds })),
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

type SampleEvent = Extract<WatchEvent, { type: 'sample' }>;

/**
 * Between the watching and a consumer that may be slow. Of the samples only the newest `limit`
 * are kept, the oldest go first; every other event waits until it is taken. While no reader has
 * begun to take events no reader can miss them, and the limit holds for all.
 */
export class EventQueue {
  readonly #limit: number;
  readonly #samples: { readonly order: number; readonly event: SampleEvent }[] = [];
  readonly #others: { readonly order: number; readonly event: WatchEvent }[] = [];
  readonly #takers: {
    readonly resolve: (result: IteratorResult<WatchEvent, undefined>) => void;
    readonly reject: (error: unknown) => void;
  }[] = [];
  #order = 0;
  #consumed = false;
  #end: { readonly error?: unknown } | undefined;
  #dropped = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Samples that were given up because the consumer was slow. */
  get droppedSamples(): number {
    return this.#dropped;
  }

  push(event: WatchEvent): void {
    if (this.#end) return;
    const taker = this.#takers.shift();
    if (taker) {
      taker.resolve({ done: false, value: event });
      return;
    }
    const order = this.#order++;
    if (event.type === 'sample') {
      this.#samples.push({ order, event });
      if (this.#samples.length > this.#limit) {
        this.#samples.shift();
        this.#dropped++;
      }
    } else {
      this.#others.push({ order, event });
      if (!this.#consumed && this.#others.length > this.#limit) this.#others.shift();
    }
  }

  /** The next event, when there is one; done after the last; rejects once if it ended badly. */
  take(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.#consumed = true;
    const sample = this.#samples[0];
    const other = this.#others[0];
    const oldest = sample && (!other || sample.order < other.order) ? this.#samples : this.#others;
    const next = oldest.shift();
    if (next) return Promise.resolve({ done: false, value: next.event });
    if (!this.#end) {
      return new Promise((resolve, reject) => {
        this.#takers.push({ resolve, reject });
      });
    }
    const { error } = this.#end;
    this.#end = {};
    return error === undefined
      ? Promise.resolve({ done: true, value: undefined })
      : Promise.reject(error);
  }

  /** No more will come. What waits can still be taken, unless it is thrown away. */
  end(how: { readonly error?: unknown; readonly discard?: boolean } = {}): void {
    if (how.discard) {
      this.#samples.length = 0;
      this.#others.length = 0;
    }
    if (this.#end) return;
    this.#end = how.error === undefined ? {} : { error: how.error };
    for (const taker of this.#takers.splice(0)) {
      this.take().then(taker.resolve, taker.reject);
    }
  }
}

/** A problem can come in endless variants; beyond this many they tell nothing new. */
const maxNotes = 100;

/** Sentences for people, each kept once. */
class Notes {
  readonly #notes = new Set<string>();

  add(note: string): void {
    if (this.#notes.size < maxNotes) this.#notes.add(note);
  }

  all(): readonly string[] {
    return [...this.#notes];
  }
}

/** At the end of a watch, what is still being delivered has this long. */
const drainSeconds = 15;

/** Hands alerts to all sinks; one that breaks its promise not to throw harms no other. */
class Delivery {
  readonly #sinks: readonly AlertSink[];
  readonly #report: (problem: string) => void;

  constructor(sinks: readonly AlertSink[], report: (problem: string) => void) {
    this.#sinks = sinks;
    this.#report = report;
  }

  deliver(alert: Alert): void {
    for (const sink of this.#sinks) {
      try {
        sink.deliver(alert, this.#report);
      } catch (error) {
        this.#report(`An alert sink failed: ${String(error)}`);
      }
    }
  }

  /** Waits for what is under way, a while; not at all once `signal` has aborted. */
  async close(clock: Clock, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const end = (): void => over.abort();
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    if (!signal.aborted) void this.#closeAll('drain').then(end);
    await clock.waitUntil(clock.seconds() + drainSeconds, over.signal);
    signal.removeEventListener('abort', end);
    await this.#closeAll('stop');
  }

  async #closeAll(how: 'drain' | 'stop'): Promise<void> {
    const close = async (sink: AlertSink): Promise<void> => {
      try {
        await sink.close(how);
      } catch (error) {
        this.#report(`An alert sink failed: ${String(error)}`);
      }
    };
    await Promise.all(this.#sinks.map(close));
  }
}

interface ObserverOptions {
  readonly now: () => Instant;
  readonly alerts: Alerts;
  readonly createDiagnosis: () => Diagnosis;
  readonly historySizes?: ThinningSizes | undefined;
  readonly emit: (event: WatchEvent) => void;
  readonly deliver: (alert: Alert) => void;
  readonly note: (text: string) => void;
}

/** Makes of what the sampler sees: the state of each device, events, and alerts. */
interface Observer {
  readonly events: SamplerEvents;
  states(): readonly DeviceState[];
}

/** Turns each sample into the state of its device: history, forecast, leaks, cause, alerts. */
function createObserver(options: ObserverOptions): Observer {
  const { now, alerts, emit } = options;
  const states = new Map<string, WatchedDevice>();
  const stateOf = (info: DeviceInfo): WatchedDevice | undefined => states.get(deviceKey(info));

  function emitAlerts(news: readonly Alert[]): void {
    for (const alert of news) {
      emit({ type: 'alert', alert });
      options.deliver(alert);
    }
  }

  /** A device has a state from its first sample on. */
  function begin(sample: Sample): WatchedDevice {
    const state = new WatchedDevice(sample, options);
    states.set(deviceKey(sample.device), state);
    const { processes } = sample;
    if (processes) state.takeProcesses(sample.atSeconds, processes);
    return state;
  }

  return {
    states: () => [...states.values()],
    events: {
      sample({ info }, reading, processes) {
        const at = now();
        const sample = sampleOf(info, reading, at, processes);
        const known = stateOf(info);
        known?.take(sample);
        const state = known ?? begin(sample);
        emit({ type: 'sample', sample, state });
        emitAlerts(alerts.update(state, at));
      },
      processes({ info }, processes) {
        stateOf(info)?.takeProcesses(now().atSeconds, processes);
      },
      late({ info }, missed) {
        emit({ type: 'late', device: info, missed, ...now() });
      },
      appeared({ info }) {
        stateOf(info)?.comeBack(info);
        emit({ type: 'appeared', device: info, ...now() });
      },
      vanished({ info }, reason) {
        const at = now();
        const state = stateOf(info);
        state?.vanish();
        emit({ type: 'vanished', device: info, reason, ...at });
        if (state) emitAlerts(alerts.forget(state, at));
      },
      note: options.note,
    },
  };
}

/** Made ten times a second and more, so field by field: spreading objects takes five times as long. */
function sampleOf(
  device: DeviceInfo,
  reading: MemoryReading,
  { atSeconds, epochMs }: Instant,
  processes: Sample['processes'],
): Sample {
  const { totalBytes, usedBytes, freeBytes, utilizationPercent, allocator, host } = reading;
  const sample: { -readonly [Key in keyof Sample]: Sample[Key] } = {
    device,
    atSeconds,
    epochMs,
    totalBytes,
    usedBytes,
    freeBytes,
    utilizationPercent,
  };
  if (allocator) sample.allocator = allocator;
  if (host) sample.host = host;
  if (processes) sample.processes = processes;
  return sample;
}
