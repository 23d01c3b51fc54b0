import type { DeviceInfo, ProcessReading } from '../device/types.js';
import type { Known } from '../units/known.js';
import type { Alert, Cause, Forecast, Leak, Trend } from '../watch/types.js';

/** The JSON of `plimsoll profile --output`; `schema` rises when a field changes its meaning. */
export interface ProfileReport {
  readonly schema: 2;
  readonly tool: { readonly name: 'plimsoll'; readonly version: string };
  /** When the report was made: the end of the profile. */
  readonly timestamp: string;
  readonly startedAt: string;
  readonly endedAt: string;
  readonly durationSeconds: number;
  readonly intervalSeconds: number;
  readonly interrupted: boolean;
  readonly devices: Readonly<Record<string, DeviceReport>>;
  readonly summary: ReportSummary;
  readonly alerts: readonly ReportAlert[];
  readonly events: readonly ReportEvent[];
}

export interface DeviceReport extends DeviceInfo {
  /** False when the device was gone at the end. */
  readonly present: boolean;
  readonly currentUsage: CurrentUsage;
  readonly statistics: UsageStatistics;
  readonly loadLine: { readonly percent: number; readonly bytes: Known<number> };
  /** What the forecast counts down to: the capacity, or the allocator's own cap. */
  readonly limit: { readonly bytes: Known<number>; readonly of: 'capacity' | 'allocator' };
  readonly forecast: Forecast;
  readonly leak: Leak;
  readonly cause: Cause;
  /** As last read, largest first. */
  readonly processes: Known<readonly ProcessReading[]>;
  readonly processLeaks: readonly ({ readonly pid: number } & Leak)[];
  readonly series: ReportSeries;
}

export interface CurrentUsage {
  /** Taken on the device by all processes together. */
  readonly usedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly totalBytes: Known<number>;
  /** How full the memory is, not how busy the processor is. */
  readonly usedPercent: Known<number>;
  /** How busy the processor is. */
  readonly utilizationPercent: Known<number>;
  /** What a caching allocator inside a process said of itself. */
  readonly allocator: Known<{
    readonly allocatedBytes: number;
    readonly reservedBytes: number;
    readonly limitBytes: number;
  }>;
}

/** Over every sample; the percentages are of the memory. */
export interface UsageStatistics {
  readonly meanUsedPercent: Known<number>;
  readonly maxUsedPercent: Known<number>;
  readonly minUsedPercent: Known<number>;
  readonly samplesCount: number;
  readonly peakBytes: Known<number>;
  readonly peakAtSeconds: Known<number>;
  readonly trend: Trend;
  /** Ticks left out because a reading took longer than the interval. */
  readonly missedTicks: number;
}

/** Buckets of time, at most 1000; `seconds` is where each begins, counted from the start. */
export interface ReportSeries {
  readonly seconds: readonly number[];
  readonly usedBytes: Band;
  /** These only where something reported them. */
  readonly allocatedBytes?: Band;
  readonly reservedBytes?: Band;
  readonly utilizationPercent?: Band;
}

/** Peaks and troughs of each bucket survive in `max` and `min`. All integers. */
export interface Band {
  readonly min: readonly Known<number>[];
  readonly mean: readonly Known<number>[];
  readonly max: readonly Known<number>[];
}

export interface ReportSummary {
  readonly totalDevices: number;
  /** Of all devices together. */
  readonly totalBytes: Known<number>;
  /** Used of total over the devices where both are known, in percent. */
  readonly usedPercent: Known<number>;
}

export type ReportAlert = Alert & { readonly at: string };

export interface ReportEvent {
  readonly type: 'appeared' | 'vanished' | 'late';
  readonly deviceId: string;
  readonly atSeconds: number;
  readonly at: string;
  /** Why it vanished. */
  readonly reason?: string;
  /** How many ticks a late reading cost; readings late one after the other are one event. */
  readonly missed?: number;
}
