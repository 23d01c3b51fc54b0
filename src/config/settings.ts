import { appendFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Discovery, discoverDevices, type SimulateOptions } from '../device/discover.js';
import { defaultLoadLine } from '../device/load-line.js';
import type { RaySettings } from '../engine/ray/nodes.js';
import type { SlurmSettings } from '../engine/slurm/nodes.js';
import type { GpuEntry } from '../estimate/cards/gpus.js';
import { Failure } from '../failure.js';
import { type AlertThresholds, defaultThresholds } from '../watch/alerts/alert-thresholds.js';
import { type AlertSink, deliverToLog } from '../watch/delivery/deliver.js';
import { deliverToCommand } from '../watch/delivery/deliver-command.js';
import { deliverToWebhook } from '../watch/delivery/deliver-webhook.js';
import { defaultIntervals } from '../watch/sampling/intervals.js';
import type { Config } from './schema.js';

/** Destinations of alerts, besides the screen. */
interface DeliverySettings {
  /** `false` keeps alerts off stderr, a path also appends them to that file. */
  readonly log?: boolean | string | undefined;
  readonly command?: readonly string[] | undefined;
  readonly webhook?: string | undefined;
}

/** Sections of the configuration that jobs and sessions go by; each key may be left out. */
export const jobSections = ['training', 'loading', 'gc', 'buffers', 'profiling'] as const;
type JobSection = (typeof jobSections)[number];
type JobSettings = { readonly [Name in JobSection]: NonNullable<Config[Name]> };

/** The settings of every command: option, variable, file and default put together. */
export interface Settings extends JobSettings {
  readonly intervalSeconds: number;
  readonly processIntervalSeconds: number;
  /** As a person wrote them; none means all. */
  readonly devices: readonly string[];
  readonly loadLinePercent: number;
  readonly nvmlLibrary?: string | undefined;
  readonly simulate?: string | undefined;
  /** Cards to plan for, besides those that are known. */
  readonly gpus?: readonly GpuEntry[] | undefined;
  /** Facts about GPUs that Slurm does not know. */
  readonly slurm?: SlurmSettings | undefined;
  /** The address of Ray, and facts about GPUs that Ray does not know. */
  readonly ray?: RaySettings | undefined;
  readonly alerts: AlertThresholds;
  readonly deliver: DeliverySettings;
  /** The most of a device that a job may take. */
  readonly memoryLimitBytes?: number | undefined;
}

export const defaultSettings: Settings = {
  intervalSeconds: defaultIntervals.intervalSeconds,
  processIntervalSeconds: defaultIntervals.processIntervalSeconds,
  devices: [],
  loadLinePercent: defaultLoadLine * 100,
  alerts: defaultThresholds,
  deliver: {},
  training: {},
  loading: {},
  gc: {},
  buffers: {},
  profiling: {},
};

/** The devices that the settings ask for: those of this machine, or simulated ones. */
export function openDevices({
  simulate,
  nvmlLibrary,
}: Pick<Settings, 'simulate' | 'nvmlLibrary'>): Promise<Discovery> {
  return discoverDevices({
    ...(simulate === undefined ? {} : { simulate: simulationOf(simulate) }),
    ...(nvmlLibrary === undefined ? {} : { libraryPath: nvmlLibrary }),
  });
}

/** Scenarios are plain words; anything like a path is a trace. */
function simulationOf(text: string): SimulateOptions {
  return /[\\/.]/.test(text) ? { trace: text } : { scenario: text };
}

/** The sinks that the settings ask for; what shows on stderr or the screen is not among them. */
export function alertSinks(settings: DeliverySettings, folder: string): readonly AlertSink[] {
  const { log, command, webhook } = settings;
  return [
    ...(typeof log === 'string' ? [deliverToLog(alertFile(resolve(folder, log)))] : []),
    ...(command === undefined ? [] : [deliverToCommand(command)]),
    ...(webhook === undefined ? [] : [deliverToWebhook(webhook)]),
  ];
}

/** Opened anew for each line, so that it may be moved away or emptied while we run. */
function alertFile(path: string): { write(text: string): void } {
  const write = (text: string) => appendFileSync(path, text);
  try {
    write('');
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'cannot-write',
      fact: `The alert log ${path} cannot be written: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Correct alerts.deliver.log.',
      cause: error,
    });
  }
  return { write };
}
