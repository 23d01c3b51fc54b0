import { loadLineOf } from '../device/load-line.js';
import type { DeviceInfo, ProcessReading } from '../device/types.js';
import { isKnown, type Known } from '../units/known.js';
import type {
  Alert,
  Cause,
  Column,
  DeviceState,
  Forecast,
  History,
  Leak,
  Series,
  Trend,
  WatchEvent,
} from '../watch/types.js';
import { percentOf } from './words.js';

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

interface CurrentUsage {
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
interface UsageStatistics {
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
interface ReportSeries {
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

interface ReportSummary {
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

export interface ProfileInput {
  readonly states: readonly DeviceState[];
  readonly alerts: readonly Alert[];
  /** Samples and alerts among them are passed over. */
  readonly events: readonly WatchEvent[];
  readonly startedEpochMs: number;
  readonly endedEpochMs: number;
  readonly intervalSeconds: number;
  readonly interrupted: boolean;
  readonly version: string;
  readonly loadLinePercent: number;
}

/**
 * What was seen while memory was watched, as one JSON document.
 *
 * @example
 * const report = buildProfileReport({ states, alerts, events, startedEpochMs, endedEpochMs,
 *   intervalSeconds: 0.1, interrupted: false, version: '0.1.0', loadLinePercent: 90 });
 * report.devices['gpu:0']?.statistics.peakBytes;
 */
export function buildProfileReport(input: ProfileInput): ProfileReport {
  const events = reportEvents(input.events);
  const devices = input.states.map((state) =>
    deviceReport(state, input.loadLinePercent, missedTicks(events, state.info.id)),
  );
  const endedAt = iso(input.endedEpochMs);
  return {
    schema: 2,
    tool: { name: 'plimsoll', version: input.version },
    timestamp: endedAt,
    startedAt: iso(input.startedEpochMs),
    endedAt,
    durationSeconds: Math.max(0, input.endedEpochMs - input.startedEpochMs) / 1000,
    intervalSeconds: input.intervalSeconds,
    interrupted: input.interrupted,
    devices: Object.fromEntries(devices.map((device) => [device.id, device])),
    summary: summary(devices),
    alerts: input.alerts.map((alert) => ({ ...alert, at: iso(alert.epochMs) })),
    events,
  };
}

function deviceReport(state: DeviceState, loadLinePercent: number, missed: number): DeviceReport {
  const { info, latest } = state;
  const total = latest.totalBytes;
  const allocator = latest.allocator;
  return {
    id: info.id,
    kind: info.kind,
    name: info.name,
    source: info.source,
    provenance: info.provenance,
    uuid: info.uuid,
    driver: info.driver,
    present: state.present,
    currentUsage: currentUsage(state),
    statistics: statistics(state, missed),
    loadLine: {
      percent: loadLinePercent,
      bytes: isKnown(total) ? loadLineOf(total, { share: loadLinePercent / 100 }) : 'unknown',
    },
    limit: allocator
      ? { bytes: allocator.limitBytes, of: 'allocator' }
      : { bytes: total, of: 'capacity' },
    forecast: state.forecast,
    leak: state.leak,
    cause: state.cause,
    processes: state.processes,
    processLeaks: Array.from(state.processLeaks, ([pid, leak]) => ({ pid, ...leak })),
    series: reportSeries(state.history),
  };
}

function currentUsage({ latest }: DeviceState): CurrentUsage {
  return {
    usedBytes: latest.usedBytes,
    freeBytes: latest.freeBytes,
    totalBytes: latest.totalBytes,
    usedPercent: oneDecimal(percentOf(latest.usedBytes, latest.totalBytes)),
    utilizationPercent: latest.utilizationPercent,
    allocator: latest.allocator ?? 'unknown',
  };
}

function statistics({ history, latest }: DeviceState, missed: number): UsageStatistics {
  const all = history.statistics();
  return {
    meanUsedPercent: oneDecimal(all.meanUsedPercent),
    maxUsedPercent: oneDecimal(all.maxUsedPercent),
    minUsedPercent: oneDecimal(percentOf(all.minUsedBytes, latest.totalBytes)),
    samplesCount: all.samples,
    peakBytes: all.maxUsedBytes,
    peakAtSeconds: all.maxAtSeconds,
    trend: history.trend(),
    missedTicks: missed,
  };
}

function summary(devices: readonly DeviceReport[]): ReportSummary {
  let total = 0;
  let used = 0;
  let known = 0;
  let allTotalsKnown = devices.length > 0;
  let sumOfTotals = 0;
  for (const { currentUsage: usage } of devices) {
    if (!isKnown(usage.totalBytes)) {
      allTotalsKnown = false;
      continue;
    }
    sumOfTotals += usage.totalBytes;
    if (!isKnown(usage.usedBytes)) continue;
    known++;
    total += usage.totalBytes;
    used += usage.usedBytes;
  }
  return {
    totalDevices: devices.length,
    totalBytes: allTotalsKnown ? sumOfTotals : 'unknown',
    usedPercent: known === 0 ? 'unknown' : oneDecimal(percentOf(used, total)),
  };
}

/** Late readings in a row on one device become one event: a slow driver must not fill the report. */
function reportEvents(events: readonly WatchEvent[]): ReportEvent[] {
  const kept: ReportEvent[] = [];
  const lastOf = new Map<string, number>();
  for (const event of events) {
    if (event.type === 'sample' || event.type === 'alert') continue;
    const deviceId = event.device.id;
    const base = { deviceId, atSeconds: event.atSeconds, at: iso(event.epochMs) };
    const place = lastOf.get(deviceId);
    const before = place === undefined ? undefined : kept[place];
    if (event.type === 'late' && place !== undefined && before?.type === 'late') {
      kept[place] = { ...before, missed: (before.missed ?? 0) + event.missed };
      continue;
    }
    lastOf.set(deviceId, kept.length);
    if (event.type === 'late') kept.push({ type: 'late', ...base, missed: event.missed });
    else if (event.type === 'vanished')
      kept.push({ type: 'vanished', ...base, reason: event.reason });
    else kept.push({ type: 'appeared', ...base });
  }
  return kept;
}

function missedTicks(events: readonly ReportEvent[], deviceId: string): number {
  return events
    .filter((event) => event.deviceId === deviceId)
    .reduce((sum, event) => sum + (event.missed ?? 0), 0);
}

function oneDecimal(value: Known<number>): Known<number> {
  return isKnown(value) ? Math.round(value * 10) / 10 : 'unknown';
}

function iso(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Enough for a chart wider than most screens, and small enough to read in an editor. */
const maxSeriesPoints = 1000;

/** The history of a device as plain arrays that JSON can hold. */
function reportSeries(history: History): ReportSeries {
  const used = history.series('used', { maxPoints: maxSeriesPoints });
  const along = (column: Column): Band | undefined =>
    bandAlong(used.seconds, history.series(column, { maxPoints: maxSeriesPoints }));
  const allocated = along('allocated');
  const reserved = along('reserved');
  const compute = along('utilization');
  return {
    seconds: Array.from(used.seconds, (second) => Math.round(second * 1000) / 1000),
    usedBytes: band(used, (index) => index),
    ...(allocated && { allocatedBytes: allocated }),
    ...(reserved && { reservedBytes: reserved }),
    ...(compute && { utilizationPercent: compute }),
  };
}

/** Another column at the same buckets; undefined when nothing was ever reported in it. */
function bandAlong(seconds: Float64Array, series: Series): Band | undefined {
  if (series.mean.every((value) => Number.isNaN(value))) return undefined;
  // Columns are thinned alike, but nothing promises it: take the bucket each instant falls in.
  const places = new Int32Array(seconds.length);
  let place = -1;
  for (let index = 0; index < seconds.length; index++) {
    const at = seconds[index] ?? 0;
    while ((series.seconds[place + 1] ?? Infinity) <= at) place++;
    places[index] = place;
  }
  return band(series, (index) => places[index] ?? -1, seconds.length);
}

function band(
  series: Series,
  place: (index: number) => number,
  length = series.seconds.length,
): Band {
  const column = (values: Float64Array): Known<number>[] =>
    Array.from({ length }, (_, index) => whole(values[place(index)]));
  return { min: column(series.min), mean: column(series.mean), max: column(series.max) };
}

function whole(value: number | undefined): Known<number> {
  return value === undefined || !Number.isFinite(value) ? 'unknown' : Math.round(value);
}
