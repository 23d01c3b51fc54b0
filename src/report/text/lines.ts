import type { DeviceInfo, MemoryReading, ProcessReading } from '../../device/types.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Alert, DeviceState } from '../../watch/types.js';
import { deviceFindings } from '../findings.js';
import type { ProfileReport } from '../profile-report.js';
import {
  causeWords,
  count,
  etaWords,
  forecastWords,
  fullWords,
  percentOf,
  percentWords,
  rateWords,
  trendWords,
  usedOfTotal,
} from '../words.js';
import { memoryBar, riskPaint } from './charts.js';
import {
  type ReplayAlarm,
  type ReplayOptions,
  type ReplayResult,
  type ReplayTrace,
  replayChart,
} from './replay-chart.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, cutText, fitText, textWidth } from './text-width.js';

export { leakWords } from '../words.js';
export type { ReplayResult, ReplayTrace } from './replay-chart.js';

/**
 * One reading of a device in one line, for logs and pipes.
 *
 * @example
 * sampleLine(state);
 * // '2026-01-15T10:30:05.000Z gpu:0 69.7 % (3.6 of 5.2 GiB) measured, compute 87 %, rising, full in ...'
 */
export function sampleLine(state: DeviceState): string {
  const { latest, info } = state;
  const compute = isKnown(latest.utilizationPercent)
    ? `, compute ${percentWords(latest.utilizationPercent)}`
    : '';
  const trend = state.history.trend();
  const outlook = isKnown(state.forecast.risk) ? `, ${forecastWords(state.forecast)}` : '';
  const gone = state.present ? '' : ', gone';
  return cleanText(
    `${time(latest.epochMs)} ${info.id} ${usageOf(state)} ${info.provenance}${compute}${trend === 'unknown' ? '' : `, ${trendWords(trend)}`}${outlook}${gone}`,
  );
}

const titles: Readonly<Record<Alert['kind'], string>> = {
  'memory-warning': 'Memory warning',
  'memory-critical': 'Memory critical',
  'gpu-warning': 'GPU memory warning',
  'gpu-critical': 'GPU memory critical',
  leak: 'Leak',
  'out-of-memory-risk': 'Out-of-memory warning',
};

/**
 * An alert with all that helps to act on it, over several lines.
 *
 * @example
 * alertBlock(alert, state);
 * // [CRITICAL] Out-of-memory warning: gpu:0 NVIDIA H200
 * //    Risk level: high
 * //    Current usage: 87.3 % (122.0 of 139.8 GiB), measured
 * //    Predicted out of memory: in 45 s (30 to 70 s), estimated
 * //    Confidence: 0.82
 * //    Recommendation: Lower the batch size.
 */
export function alertBlock(alert: Alert, state: DeviceState): string {
  const { forecast, info } = state;
  const level = alert.state === 'cleared' ? 'CLEARED' : alert.severity.toUpperCase();
  const eta = forecast.etaSeconds === 0 ? undefined : etaWords(forecast);
  const advice = new Set([...alert.recommendations, ...forecast.recommendations]);
  const lines = [
    `[${level}] ${titles[alert.kind]}: ${info.id} ${info.name}`,
    `   ${alert.message}`,
    ...(alert.pid === undefined ? [] : [`   Process: ${alert.pid}`]),
    `   Risk level: ${forecast.risk}`,
    `   Current usage: ${usageOf(state)}, ${info.provenance}`,
    `   Predicted out of memory: ${eta === undefined ? noEnd(state) : `in ${eta}`}, estimated`,
    `   Confidence: ${forecast.confidence.toFixed(2)}`,
    ...(alert.state === 'cleared' ? [] : [...advice].map((text) => `   Recommendation: ${text}`)),
  ];
  return lines.map(cleanText).join('\n');
}

function noEnd({ forecast }: DeviceState): string {
  if (forecast.etaSeconds === 0) return 'now';
  return forecast.etaSeconds === 'never' ? 'not expected' : 'unknown';
}

function usageOf({ latest }: DeviceState): string {
  const percent = percentWords(percentOf(latest.usedBytes, latest.totalBytes), 1);
  return `${percent} (${usedOfTotal(latest.usedBytes, latest.totalBytes)})`;
}

function time(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/**
 * What a profile found, as the lines that end `plimsoll profile`.
 *
 * @example
 * console.log(profileSummary(report));
 */
export function profileSummary(report: ProfileReport): string {
  const devices = Object.values(report.devices);
  const samples = devices.reduce((sum, device) => sum + device.statistics.samplesCount, 0);
  const raised = report.alerts.filter((alert) => alert.state === 'raised').length;
  const stopped = report.interrupted ? ', interrupted' : '';
  const lines = [
    `${count(samples, 'sample')} of ${count(devices.length, 'device')} in ${formatSeconds(report.durationSeconds)}${stopped}, ${count(raised, 'alert')}.`,
  ];
  for (const device of devices) {
    lines.push('', `${device.id}  ${device.name} (${device.provenance})`);
    for (const finding of deviceFindings(device)) {
      lines.push(`  ${finding.text} [${finding.provenance}]`);
    }
    for (const advice of device.forecast.recommendations) lines.push(`  To do: ${advice}`);
  }
  return lines.map(cleanText).join('\n');
}

/**
 * What `plimsoll replay` shows a person: the recorded series, the alarms under the instants they
 * were raised at, and the verdict.
 *
 * @example
 * console.log(replayText(result, trace, { columns: 80, rows: 12, loadLinePercent: 90,
 *   style: { colour: false, unicode: true } }));
 */
export function replayText(
  result: ReplayResult,
  trace: ReplayTrace,
  options: ReplayOptions,
): string {
  const { columns, style } = options;
  const lines = [
    ...replayChart(result, trace, options),
    [],
    ...result.alarms.map((alarm, index) => alarmLine(alarm, index)),
    ...verdict(result, trace).map((text) => [span(text)]),
  ];
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

function alarmLine(alarm: ReplayAlarm, index: number): Span[] {
  const full = fullWords(alarm);
  return [
    span(`${index + 1}. `.padStart(5), 'dim'),
    span(`after ${formatSeconds(alarm.atSeconds)}: `),
    span(`risk ${alarm.risk}`, riskPaint(alarm.risk)),
    span(full === undefined ? '' : `, ${full}, estimated`),
  ];
}

function verdict({ alarms, leak, cause }: ReplayResult, trace: ReplayTrace): string[] {
  const end = trace.seconds.at(-1) ?? 0;
  const first = alarms.find(({ risk }) => risk === 'high' || risk === 'critical');
  const warned = first
    ? `Warned ${formatSeconds(Math.max(0, end - first.atSeconds))} before the recording ends.`
    : 'The limit is not expected within a minute anywhere in the recording.';
  const leaks =
    leak.found === 'unknown'
      ? `Whether it leaks is unknown${growing(leak.bytesPerSecond)}.`
      : leak.found
        ? `It leaks ${rateWords(leak.bytesPerSecond)}.`
        : 'No leak was found.';
  const reason = isKnown(cause) && cause !== 'none' ? [`Likely cause: ${causeWords(cause)}.`] : [];
  return [warned, leaks, ...reason];
}

function growing(bytesPerSecond: ReplayResult['leak']['bytesPerSecond']): string {
  return isKnown(bytesPerSecond) ? `: memory grew by ${rateWords(bytesPerSecond)} at the end` : '';
}

/** One device as `plimsoll devices` has just read it, in the shape of its JSON. */
export type DeviceRow = DeviceInfo &
  MemoryReading & { readonly processes: Known<readonly ProcessReading[]> };

interface TableOptions {
  readonly columns: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
  /** Processes shown under each device. */
  readonly processes?: number;
  /** What could not be seen, and why. */
  readonly notes?: readonly string[];
}

/**
 * The devices of this machine with a bar each, and under each the processes that hold its memory.
 *
 * @example
 * devicesTable(rows, { columns: 80, loadLinePercent: 90, style: { colour: false, unicode: true } });
 */
export function devicesTable(rows: readonly DeviceRow[], options: TableOptions): string {
  const { columns, style } = options;
  const mark = style.unicode ? '…' : '~';
  const id = widest(rows, (row) => cleanText(row.id), 14);
  const name = widest(rows, (row) => cleanText(row.name), Math.max(8, Math.floor(columns / 4)));
  const usage = widest(rows, (row) => usedOfTotal(row.usedBytes, row.totalBytes), 32);
  const origin = widest(rows, originOf, 24);
  // id, name, percent and usage come first; the bar and then the origin take what remains.
  const left = columns - id - name - usage - 2 * 3 - 8;
  const shownOrigin = left - origin - 2 >= 10 ? origin + 2 : 0;
  const bar = Math.min(40, left - shownOrigin);
  const lines: Span[][] = rows.flatMap((row) => {
    const percent = percentOf(row.usedBytes, row.totalBytes);
    const head = [
      span(fitText(cleanText(row.id), id, mark), 'bold'),
      span('  '),
      span(fitText(cleanText(row.name), name, mark)),
      span('  '),
      ...(bar >= 6 ? memoryBar(bar, percent, options.loadLinePercent, style) : []),
      span(percentWords(percent, 1).padStart(8)),
      span('  '),
      span(usedOfTotal(row.usedBytes, row.totalBytes).padStart(usage)),
      ...(shownOrigin > 0
        ? [span(`  ${originOf(row)}`, row.provenance === 'simulated' ? 'inverse' : 'dim')]
        : []),
    ];
    return [head, ...processLines(row, options)];
  });
  if (rows.length === 0) lines.push([span('No device is seen.')]);
  for (const note of options.notes ?? [])
    lines.push([span('note: ', 'dim'), span(cleanText(note))]);
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

function originOf(info: DeviceRow): string {
  return info.source === info.provenance ? info.provenance : `${info.source}, ${info.provenance}`;
}

function processLines(row: DeviceRow, { columns, style, processes = 5 }: TableOptions): Span[][] {
  if (!isKnown(row.processes))
    return [[span('    processes unknown: they could not be seen', 'dim')]];
  const shown = row.processes.slice(0, processes).map((process) => {
    const name = cutText(
      cleanText(process.name),
      Math.max(0, columns - 26),
      style.unicode ? '…' : '~',
    );
    return [
      span(String(process.pid).padStart(11), 'dim'),
      span(formatBytes(process.usedBytes).padStart(12)),
      span(`  ${name}`),
    ];
  });
  const more = row.processes.length - shown.length;
  return more > 0
    ? [...shown, [span(`    and ${count(more, 'more process', 'more processes')}`, 'dim')]]
    : shown;
}

function widest(
  rows: readonly DeviceRow[],
  text: (row: DeviceRow) => string,
  most: number,
): number {
  return Math.min(most, Math.max(0, ...rows.map((row) => textWidth(text(row)))));
}
