import { isKnown } from '../../units/known.js';
import type { Alert, DeviceState } from '../../watch/types.js';
import {
  etaWords,
  forecastWords,
  percentOf,
  percentWords,
  trendWords,
  usedOfTotal,
} from '../words.js';
import { cleanText } from './text-width.js';

export { leakWords } from '../words.js';
export { type DeviceRow, devicesTable } from './devices-table.js';
export { profileSummary } from './profile-summary.js';
export { type ReplayTrace, replayText } from './replay-text.js';

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
    `${time(latest.epochMs)} ${info.id} ${usage(state)} ${info.provenance}${compute}${trend === 'unknown' ? '' : `, ${trendWords(trend)}`}${outlook}${gone}`,
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
    `   Current usage: ${usage(state)}, ${info.provenance}`,
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

function usage({ latest }: DeviceState): string {
  const percent = percentWords(percentOf(latest.usedBytes, latest.totalBytes), 1);
  return `${percent} (${usedOfTotal(latest.usedBytes, latest.totalBytes)})`;
}

function time(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
