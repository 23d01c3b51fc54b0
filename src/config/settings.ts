import { defaultLoadLine } from '../device/load-line.js';
import type { GpuEntry } from '../estimate/cards/gpus.js';
import { type AlertThresholds, defaultThresholds } from '../watch/alerts/alert-thresholds.js';
import { defaultIntervals } from '../watch/sampling/intervals.js';

/** Where alerts go, besides the screen. */
export interface DeliverySettings {
  /** `false` keeps alerts off stderr, a path also appends them to that file. */
  readonly log?: boolean | string | undefined;
  readonly command?: readonly string[] | undefined;
  readonly webhook?: string | undefined;
}

/** What every command goes by, after option, variable, file and default are put together. */
export interface Settings {
  readonly intervalSeconds: number;
  readonly processIntervalSeconds: number;
  /** As a person wrote them; none means all. */
  readonly devices: readonly string[];
  readonly loadLinePercent: number;
  readonly nvmlLibrary?: string | undefined;
  readonly simulate?: string | undefined;
  /** Cards to plan for, besides those that are known. */
  readonly gpus?: readonly GpuEntry[] | undefined;
  readonly alerts: AlertThresholds;
  readonly deliver: DeliverySettings;
}

export const defaultSettings: Settings = {
  intervalSeconds: defaultIntervals.intervalSeconds,
  processIntervalSeconds: defaultIntervals.processIntervalSeconds,
  devices: [],
  loadLinePercent: defaultLoadLine * 100,
  alerts: defaultThresholds,
  deliver: {},
};
