import { alertSinks } from '../config/alert-sinks.js';
import { openDevices } from '../config/open-devices.js';
import type { Settings } from '../config/settings.js';
import type { Discovery } from '../device/discover.js';
import { selectDevices } from '../device/select-devices.js';
import type { Device } from '../device/types.js';
import { buildProfileReport, type ProfileReport } from '../report/profile-report.js';
import { cleanText } from '../report/text/text-width.js';
import { systemClock } from '../time/clock.js';
import { alertLine } from '../watch/delivery/deliver.js';
import { createDiagnosis } from '../watch/diagnosis/diagnose.js';
import type { Alert, DeviceState, WatchEvent } from '../watch/types.js';
import { watch } from '../watch/watch.js';
import type { CliIo } from './io.js';
import { openProgress, type Progress } from './screen/progress.js';
import type { Stop } from './stop.js';

export interface WatchingOptions {
  readonly settings: Settings;
  readonly io: CliIo;
  readonly durationSeconds: number;
  readonly signal: AbortSignal;
  /** What to watch in place of the devices that were chosen (one process on them). */
  readonly instead?: (devices: readonly Device[]) => Promise<readonly Device[]>;
}

/** One run of a command that watches: the devices, what happens, and what to remember of it. */
export interface Watching {
  readonly recorder: Recorder;
  /** Every event once; ends with the duration or the signal. */
  events(): AsyncIterable<WatchEvent>;
  readonly states: () => readonly DeviceState[];
  /** What was seen until now. */
  report(version: string, interrupted: boolean): ProfileReport;
  /** Waits for what is under way, lets go of the devices, and answers what could not be done. */
  close(): Promise<readonly string[]>;
}

export async function openWatching(options: WatchingOptions): Promise<Watching> {
  const { settings, io, durationSeconds, signal } = options;
  const deliver = alertSinks(settings.deliver, io.folder);
  const discovery = await openDevices(settings);
  const devices = await chooseDevices(discovery, options).catch((error: unknown) => {
    discovery.close();
    throw error;
  });
  const recorder = new Recorder();
  const startedEpochMs = systemClock.epochMs();
  const watching = watch({
    ...devices,
    intervalSeconds: settings.intervalSeconds,
    processIntervalSeconds: settings.processIntervalSeconds,
    durationSeconds,
    thresholds: settings.alerts,
    createDiagnosis: () => createDiagnosis({ exceptPid: process.pid, costs: settings.alerts }),
    signal,
    deliver,
  });
  return {
    recorder,
    async *events() {
      for await (const event of watching) {
        recorder.take(event);
        yield event;
      }
    },
    states: () => watching.states(),
    report: (version, interrupted) =>
      buildProfileReport({
        states: watching.states(),
        alerts: recorder.alerts,
        events: recorder.events,
        startedEpochMs,
        endedEpochMs: systemClock.epochMs(),
        intervalSeconds: settings.intervalSeconds,
        interrupted,
        version,
        loadLinePercent: settings.loadLinePercent,
      }),
    async close() {
      await watching.closed;
      // What cannot be seen on this machine is for `plimsoll devices` to say.
      const notes = watching.notes().filter((note) => !discovery.notes.includes(note));
      discovery.close();
      return notes;
    },
  };
}

async function chooseDevices(
  discovery: Discovery,
  { settings, instead }: WatchingOptions,
): Promise<{ devices?: readonly Device[]; discovery?: Discovery }> {
  const chosen = selectDevices(discovery.devices, settings.devices);
  if (instead) return { devices: await instead(chosen) };
  // Without names, devices that appear later are watched, too.
  return settings.devices.length === 0 ? { discovery } : { discovery, devices: chosen };
}

/** Enough to tell a story; a week of a flapping alert must not fill the memory we watch. */
const keptEvents = 10_000;

/** What happened while watching, besides samples: the report tells it at the end. */
class Recorder {
  readonly #alerts: Alert[] = [];
  readonly #events: WatchEvent[] = [];

  /** The latest of them, oldest first. */
  get alerts(): readonly Alert[] {
    return this.#alerts;
  }

  /** The latest of them, oldest first; neither samples nor alerts. */
  get events(): readonly WatchEvent[] {
    return this.#events;
  }

  take(event: WatchEvent): void {
    if (event.type === 'sample') return;
    if (event.type === 'alert') keep(this.#alerts, event.alert);
    else keep(this.#events, event);
  }
}

function keep<T>(list: T[], item: T): void {
  list.push(item);
  if (list.length > keptEvents) list.shift();
}

interface RunWatchOptions extends WatchingOptions {
  /** Called for each event; what it writes goes through `progress` or to stdout. */
  readonly onEvent: (event: WatchEvent, watching: Watching, progress: Progress) => void;
  /** Which events are told on stderr as they come; alerts and comings and goings unless said. */
  readonly isPrinted?: (event: WatchEvent) => boolean;
}

/**
 * Watches to the end, in the way all commands but the screen do: alerts and what happens to
 * devices are told on stderr, and what went wrong in passing is told last.
 */
export async function runWatch(options: RunWatchOptions): Promise<Watching> {
  const { io, settings } = options;
  const watching = await openWatching(options);
  const progress = openProgress(io.stderr);
  try {
    for await (const event of watching.events()) {
      const silenced = event.type === 'alert' && settings.deliver.log === false;
      const line = silenced || options.isPrinted?.(event) === false ? undefined : eventLine(event);
      if (line !== undefined) progress.line(line);
      options.onEvent(event, watching, progress);
    }
  } finally {
    progress.end();
    for (const note of await watching.close()) io.stderr.write(`plimsoll: ${note}\n`);
  }
  return watching;
}

/** Signals have their usual effect again once the command is done, however it ends. */
export async function withStop<T>(stop: Stop, act: (stop: Stop) => Promise<T>): Promise<T> {
  try {
    return await act(stop);
  } finally {
    stop[Symbol.dispose]();
  }
}

/** An event that a person should hear of while a command runs, as one line for stderr. */
function eventLine(event: WatchEvent): string | undefined {
  switch (event.type) {
    case 'alert':
      return alertLine(event.alert);
    case 'appeared':
      return cleanText(
        `plimsoll: ${event.device.id} (${event.device.name}) appeared and is watched from now on.`,
      );
    case 'vanished':
      return cleanText(`plimsoll: ${event.device.id} is gone: ${event.reason}`);
    // Samples are shown otherwise, and late ones are counted in the report.
    case 'sample':
    case 'late':
    default:
      return undefined;
  }
}
