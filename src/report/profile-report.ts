import { loadLineOf } from '../device/load-line.js';
import { isKnown, type Known } from '../units/known.js';
import type { Alert, DeviceState, WatchEvent } from '../watch/types.js';
import { reportSeries } from './report-series.js';
import type {
  CurrentUsage,
  DeviceReport,
  ProfileReport,
  ReportEvent,
  ReportSummary,
  UsageStatistics,
} from './report-shape.js';
import { percentOf } from './words.js';

export type * from './report-shape.js';

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
