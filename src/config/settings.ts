import { defaultLoadLine } from '../device/load-line.js';
import type { RaySettings } from '../engine/ray/nodes.js';
import type { SlurmSettings } from '../engine/slurm/gpu-types.js';
import type { GpuEntry } from '../estimate/cards/gpus.js';
import { type AlertThresholds, defaultThresholds } from '../watch/alerts/alert-thresholds.js';
import { defaultIntervals } from '../watch/sampling/intervals.js';
import type { Config } from './schema.js';

/** Where alerts go, besides the screen. */
export interface DeliverySettings {
  /** `false` keeps alerts off stderr, a path also appends them to that file. */
  readonly log?: boolean | string | undefined;
  readonly command?: readonly string[] | undefined;
  readonly webhook?: string | undefined;
}

/** Sections of the configuration that jobs and sessions go by; each key may be left out. */
export const jobSections = ['training', 'loading', 'gc', 'buffers', 'profiling'] as const;
type JobSection = (typeof jobSections)[number];
type JobSettings = { readonly [Name in JobSection]: NonNullable<Config[Name]> };

/** What every command goes by, after option, variable, file and default are put together. */
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
  /** What Slurm does not know of its GPUs. */
  readonly slurm?: SlurmSettings | undefined;
  /** Where Ray is, and what it does not know of its GPUs. */
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
