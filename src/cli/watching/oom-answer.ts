import type { DeviceInfo } from '../../device/types.js';
import { cleanText } from '../../report/text/text-width.js';
import { forecastWords, percentOf, percentWords, usedOfTotal } from '../../report/words.js';
import { isKnown, type Known } from '../../units/known.js';
import { isAtLeast } from '../../watch/diagnosis/risk.js';
import type { Alert, Cause, DeviceState, Forecast } from '../../watch/types.js';
import type { OomAlarmReason } from './oom-alarm.js';

/** One device in the JSON of `plimsoll oom`. */
export interface OomDevice extends DeviceInfo {
  readonly usedBytes: Known<number>;
  readonly totalBytes: Known<number>;
  readonly usedPercent: Known<number>;
  readonly aboveThreshold: boolean;
  /** Out of memory is expected within a minute. */
  readonly atRisk: boolean;
  readonly forecast: Forecast;
  readonly cause: Cause;
}

export function oomDevice(state: DeviceState, thresholdPercent: number): OomDevice {
  const { usedBytes, totalBytes } = state.latest;
  const usedPercent = percentOf(usedBytes, totalBytes);
  return {
    ...state.info,
    usedBytes,
    totalBytes,
    usedPercent: isKnown(usedPercent) ? Math.round(usedPercent * 10) / 10 : 'unknown',
    aboveThreshold: isKnown(usedPercent) && usedPercent > thresholdPercent,
    atRisk: isAtLeast(state.forecast.risk, 'high'),
    forecast: state.forecast,
    cause: state.cause,
  };
}

/** `gpu:0  87.3 % (122.0 of 139.8 GiB), measured; full in 45 s, ...  ABOVE 85 %`. */
export function oomLine(device: OomDevice, thresholdPercent: number): string {
  const use = `${percentWords(device.usedPercent, 1)} (${usedOfTotal(device.usedBytes, device.totalBytes)})`;
  const above = device.aboveThreshold ? `; above ${thresholdPercent} %` : '';
  const risk = device.atRisk ? '; AT RISK' : '';
  return cleanText(
    `${device.id}  ${use}, ${device.provenance}; ${forecastWords(device.forecast)}${above}${risk}`,
  );
}

/** What is told when the alarm goes off, in the shape of every other alert. */
export function oomAlert(
  state: DeviceState,
  reason: OomAlarmReason,
  thresholdPercent: number,
): Alert {
  const { info, latest, forecast } = state;
  const critical = forecast.risk === 'critical';
  return {
    kind: 'out-of-memory-risk',
    state: 'raised',
    severity: critical ? 'critical' : 'warning',
    deviceId: info.id,
    atSeconds: latest.atSeconds,
    epochMs: latest.epochMs,
    message: reason === 'risk-rose' ? forecast.reason : `Memory use passed ${thresholdPercent} %.`,
    recommendations: forecast.recommendations,
    provenance: info.provenance,
  };
}
