import type { DeviceInfo, MemoryReading, ProcessReading } from '../device/types.js';
import type { Known } from '../units/known.js';

/** One reading of a device, and of its processes when they were read, at a time. */
export interface Sample extends MemoryReading {
  readonly device: DeviceInfo;
  /** Seconds since watching began. */
  readonly atSeconds: number;
  /** Milliseconds since 1970. */
  readonly epochMs: number;
  /** Present only in the samples in which processes were read (they are read less often). */
  readonly processes?: Known<readonly ProcessReading[]>;
}

export const risks = ['none', 'low', 'medium', 'high', 'critical'] as const;
export type Risk = (typeof risks)[number];

/** What the forecaster is fed: one instant of one pool of memory. */
export interface MemoryPoint {
  readonly seconds: number;
  /** The most that can be had: device capacity, or the allocator's own cap. */
  readonly limitBytes: number;
  /** What the rest of the machine loses: reserved where an allocator reports, else used. */
  readonly heldBytes: number;
  /** Live bytes inside what is held, where an allocator reports. */
  readonly liveBytes?: number;
}

/**
 * When the limit will be reached. `never` means: not at what is seen now. A bound of `never` means
 * that the data allow for no end at all.
 */
export interface Forecast {
  readonly risk: Known<Risk>;
  /** How likely the limit is reached within a time, if nothing is changed: 0 to 1. */
  readonly probability: Known<{
    readonly within15s: number;
    readonly within60s: number;
    readonly within5min: number;
  }>;
  readonly etaSeconds: Known<number> | 'never';
  readonly lowSeconds: Known<number> | 'never';
  readonly highSeconds: Known<number> | 'never';
  /** 0 to 1. */
  readonly confidence: number;
  readonly bytesPerSecond: Known<number>;
  /** One sentence: what it rests on, or why it is unknown. */
  readonly reason: string;
  readonly recommendations: readonly string[];
  readonly provenance: 'estimated';
}

/**
 * Whether memory grows without coming back. `unknown` while too little was seen (then nothing else
 * is known either), and for growth that may still be a start or a warm-up (then the rate is known).
 */
export interface Leak {
  readonly found: Known<boolean>;
  readonly bytesPerSecond: Known<number>;
  /** 0 to 1. */
  readonly confidence: number;
  /** Bytes gained since the growth began. */
  readonly grownBytes: Known<number>;
  /** When the growth began, in the seconds of the points fed. */
  readonly sinceSeconds: Known<number>;
  /** How much longer to watch until it can be told; 0 when it is. */
  readonly watchSeconds: number;
  readonly reason: string;
}

export type Cause =
  | 'leak'
  | 'fragmentation'
  | 'growth'
  | 'spike'
  | 'neighbour'
  | 'none'
  | 'unknown';

export const alertKinds = [
  'memory-warning',
  'memory-critical',
  'gpu-warning',
  'gpu-critical',
  'leak',
  'out-of-memory-risk',
] as const;
export type AlertKind = (typeof alertKinds)[number];

export interface Alert {
  readonly kind: AlertKind;
  readonly state: 'raised' | 'cleared';
  readonly severity: 'warning' | 'critical';
  readonly deviceId: string;
  /** The process it is about, for a leak seen in one process. */
  readonly pid?: number;
  readonly atSeconds: number;
  readonly epochMs: number;
  /** One sentence a person can act on. */
  readonly message: string;
  readonly recommendations: readonly string[];
  readonly provenance: 'measured' | 'simulated';
}

/** One column of a history over time; peaks and troughs survive thinning in min and max. */
export interface Series {
  /** Start of each bucket, in seconds since watching began, rising. */
  readonly seconds: Float64Array;
  readonly min: Float64Array;
  readonly mean: Float64Array;
  readonly max: Float64Array;
}

/** `held` is used bytes of the device; allocated and reserved are NaN where nothing reports them. */
export type Column = 'used' | 'allocated' | 'reserved' | 'utilization';

/** Over every sample ever added, thinned or not. */
export interface Statistics {
  readonly samples: number;
  readonly minUsedBytes: Known<number>;
  readonly meanUsedBytes: Known<number>;
  readonly maxUsedBytes: Known<number>;
  /** When the most was used, in seconds since watching began. */
  readonly maxAtSeconds: Known<number>;
  readonly meanUsedPercent: Known<number>;
  readonly maxUsedPercent: Known<number>;
}

export type Trend = 'increasing' | 'decreasing' | 'stable' | 'unknown';

export interface History {
  add(sample: Sample): void;
  statistics(): Statistics;
  /** Direction over the last `windowSeconds` (60 unless told otherwise). */
  trend(windowSeconds?: number): Trend;
  /** At most `maxPoints` buckets (2000 unless told otherwise) that cover the asked range. */
  series(
    column: Column,
    range?: { fromSeconds?: number; toSeconds?: number; maxPoints?: number },
  ): Series;
  /** Bytes of the typed arrays behind it. */
  readonly footprintBytes: number;
}

/** All that is known of one device while it is watched. */
export interface DeviceState {
  readonly info: DeviceInfo;
  readonly present: boolean;
  readonly latest: Sample;
  /** As last read; samples between carry none. */
  readonly processes: Known<readonly ProcessReading[]>;
  readonly history: History;
  readonly forecast: Forecast;
  readonly leak: Leak;
  /** By pid: only the processes that grow, whether or not it is known to be a leak. */
  readonly processLeaks: ReadonlyMap<number, Leak>;
  readonly cause: Cause;
  /** Raised and not cleared. */
  readonly alerts: readonly Alert[];
}

export type WatchEvent =
  | { readonly type: 'sample'; readonly sample: Sample; readonly state: DeviceState }
  | { readonly type: 'alert'; readonly alert: Alert }
  | {
      readonly type: 'appeared';
      readonly device: DeviceInfo;
      readonly atSeconds: number;
      readonly epochMs: number;
    }
  | {
      readonly type: 'vanished';
      readonly device: DeviceInfo;
      readonly reason: string;
      readonly atSeconds: number;
      readonly epochMs: number;
    }
  /** A reading took longer than the interval: these ticks were left out, not queued. */
  | {
      readonly type: 'late';
      readonly device: DeviceInfo;
      readonly missed: number;
      readonly atSeconds: number;
      readonly epochMs: number;
    };
