import { isKnown, type Known } from '../../units/known.js';
import { type AlertKind, type DeviceState, type Leak, type Risk, risks } from '../types.js';
import type { AlertThresholds } from './alert-thresholds.js';

/** What alerts are judged by: a part of the state of a device. */
export type AlertInput = Pick<
  DeviceState,
  'info' | 'latest' | 'processes' | 'forecast' | 'leak' | 'processLeaks'
>;

type Severity = 'warning' | 'critical';

/** How one thing to warn of stands at one instant. Made at every sample, so it is kept small. */
export interface Condition {
  readonly kind: AlertKind;
  readonly pid?: number;
  /**
   * `present` raises; `absent` clears; `near` is the stretch between the threshold and its margin
   * in which an alert is neither raised nor cleared.
   */
  readonly standing: 'present' | 'near' | 'absent';
  readonly severity: Severity;
}

/** The conditions of a device; one whose figures are unknown is left out. */
export function conditionsOf(input: AlertInput, thresholds: AlertThresholds): Condition[] {
  const { enabled } = thresholds;
  const found: Condition[] = [];
  const percent = usedPercent(input);
  if (isKnown(percent)) {
    for (const kind of useKinds[input.info.kind]) {
      if (enabled[kind]) found.push(useCondition(kind, percent, thresholds));
    }
  }
  if (enabled['out-of-memory-risk']) found.push(riskCondition(input.forecast.risk, thresholds));
  if (enabled.leak) {
    found.push(leakCondition(input.leak, thresholds));
    for (const [pid, leak] of input.processLeaks) {
      found.push({ ...leakCondition(leak, thresholds), pid });
    }
  }
  return found;
}

type UseKind = 'memory-warning' | 'memory-critical' | 'gpu-warning' | 'gpu-critical';

const useKinds: Readonly<Record<'gpu' | 'host', readonly UseKind[]>> = {
  gpu: ['gpu-warning', 'gpu-critical'],
  host: ['memory-warning', 'memory-critical'],
};

const useLines = {
  'memory-warning': 'memoryWarningPercent',
  'memory-critical': 'memoryCriticalPercent',
  'gpu-warning': 'gpuWarningPercent',
  'gpu-critical': 'gpuCriticalPercent',
} as const;

/** The percentage of its capacity at which a kind is raised. */
export function useLine(kind: UseKind, thresholds: AlertThresholds): number {
  return thresholds[useLines[kind]];
}

export function usedPercent({ latest }: Pick<AlertInput, 'latest'>): Known<number> {
  const { usedBytes, totalBytes } = latest;
  if (!isKnown(usedBytes) || !isKnown(totalBytes) || totalBytes <= 0) return 'unknown';
  return (100 * usedBytes) / totalBytes;
}

function useCondition(kind: UseKind, percent: number, thresholds: AlertThresholds): Condition {
  const line = useLine(kind, thresholds);
  const below = percent < line - thresholds.hysteresisPercent ? 'absent' : 'near';
  const severity = kind === 'gpu-critical' || kind === 'memory-critical' ? 'critical' : 'warning';
  return { kind, standing: percent >= line ? 'present' : below, severity };
}

function riskCondition(risk: Known<Risk>, thresholds: AlertThresholds): Condition {
  const level = isKnown(risk) ? risks.indexOf(risk) : 0;
  const critical = level >= risks.indexOf(thresholds.riskCritical);
  const present = critical || level >= risks.indexOf(thresholds.riskWarning);
  return {
    kind: 'out-of-memory-risk',
    standing: present ? 'present' : 'absent',
    severity: critical ? 'critical' : 'warning',
  };
}

function leakCondition(leak: Leak, thresholds: AlertThresholds): Condition {
  const present =
    leak.found === true &&
    reaches(leak.bytesPerSecond, thresholds.leakBytesPerSecond) &&
    reaches(leak.grownBytes, thresholds.leakGrownBytes) &&
    leak.confidence >= thresholds.leakConfidence;
  return { kind: 'leak', standing: present ? 'present' : 'absent', severity: 'warning' };
}

/** What was found and not measured is not held against it. */
function reaches(value: Known<number>, least: number): boolean {
  return !isKnown(value) || value >= least;
}
