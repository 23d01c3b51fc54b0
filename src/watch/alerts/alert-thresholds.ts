import { Failure } from '../../failure.js';
import { checkOptions, elsewhere, object, truth } from '../../units/arguments.js';
import { MiB } from '../../units/bytes.js';
import { defaultCosts, type ForecastCosts } from '../diagnosis/probability.js';
import { type AlertKind, alertKinds, type Risk, risks } from '../types.js';

/** When an alert is raised, and when it is cleared. */
export interface AlertThresholds extends ForecastCosts {
  /** Memory use of the host, in percent of its capacity. */
  readonly memoryWarningPercent: number;
  readonly memoryCriticalPercent: number;
  /** Memory use of a GPU, in percent of its capacity. */
  readonly gpuWarningPercent: number;
  readonly gpuCriticalPercent: number;
  /** Use must fall this many points below its threshold before the alert is cleared. */
  readonly hysteresisPercent: number;
  /** A leak that is slower, smaller or less sure than these raises no alert. */
  readonly leakBytesPerSecond: number;
  readonly leakGrownBytes: number;
  /** 0 to 1. */
  readonly leakConfidence: number;
  /** Out-of-memory risk that is a warning, and that is critical. */
  readonly riskWarning: Risk;
  readonly riskCritical: Risk;
  /** A leak or a risk must be away this long before its alert is cleared. */
  readonly clearAfterSeconds: number;
  /** The same alert is raised at most once in this time, however often it comes and goes. */
  readonly repeatSeconds: number;
  /** Whether growth of the host's memory is an alert: most of it belongs to programs that are no job. */
  readonly hostGrowth: boolean;
  readonly enabled: Readonly<Record<AlertKind, boolean>>;
}

/** What a caller may set; the rest stays as it is by default. */
export type ThresholdSettings = {
  readonly [Name in Exclude<keyof AlertThresholds, 'enabled'>]?: AlertThresholds[Name] | undefined;
} & { readonly enabled?: { readonly [Kind in AlertKind]?: boolean | undefined } | undefined };

export const defaultThresholds: AlertThresholds = {
  memoryWarningPercent: 75,
  memoryCriticalPercent: 90,
  gpuWarningPercent: 80,
  gpuCriticalPercent: 95,
  hysteresisPercent: 5,
  // About 5 GiB a day.
  leakBytesPerSecond: 64 * 1024,
  leakGrownBytes: 16 * MiB,
  leakConfidence: 0.5,
  riskWarning: 'high',
  riskCritical: 'critical',
  clearAfterSeconds: 10,
  repeatSeconds: 60,
  ...defaultCosts,
  hostGrowth: false,
  enabled: {
    'memory-warning': true,
    'memory-critical': true,
    'gpu-warning': true,
    'gpu-critical': true,
    leak: true,
    'out-of-memory-risk': true,
  },
};

/** The least and the most each number may be. */
const bounds: Readonly<Record<NumberName, readonly [number, number]>> = {
  memoryWarningPercent: [1, 100],
  memoryCriticalPercent: [1, 100],
  gpuWarningPercent: [1, 100],
  gpuCriticalPercent: [1, 100],
  hysteresisPercent: [0, 50],
  leakBytesPerSecond: [0, Number.MAX_SAFE_INTEGER],
  leakGrownBytes: [0, Number.MAX_SAFE_INTEGER],
  leakConfidence: [0, 1],
  clearAfterSeconds: [0, Number.MAX_SAFE_INTEGER],
  repeatSeconds: [0, Number.MAX_SAFE_INTEGER],
  missedEndCost: [0.001, 1e6],
  falseAlarmCost: [0.001, 1e6],
};
const thresholdRules = Object.fromEntries(
  Object.keys(defaultThresholds).map((name) => [
    name,
    name === 'enabled' ? object : name === 'hostGrowth' ? truth : elsewhere,
  ]),
);
const enabledRules = Object.fromEntries(alertKinds.map((kind) => [kind, truth]));
type NumberName = {
  [Name in keyof AlertThresholds]: AlertThresholds[Name] extends number ? Name : never;
}[keyof AlertThresholds];

/**
 * The thresholds asked for, the rest as usual; a bad one is a `Failure` that names it.
 *
 * @example
 * resolveThresholds({ gpuWarningPercent: 85, enabled: { leak: false } });
 */
export function resolveThresholds(asked: ThresholdSettings = {}): AlertThresholds {
  checkOptions('thresholds', asked, thresholdRules);
  checkOptions('thresholds.enabled', asked.enabled ?? {}, enabledRules);
  const number = (name: NumberName): number => {
    const value = asked[name] ?? defaultThresholds[name];
    const [least, most] = bounds[name];
    if (typeof value === 'number' && value >= least && value <= most) return value;
    return refuse(`${name} is ${value}.`, `It must be a number from ${least} to ${most}.`);
  };
  const risk = (name: 'riskWarning' | 'riskCritical'): Risk => {
    const value = asked[name] ?? defaultThresholds[name];
    if (value !== 'none' && risks.includes(value)) return value;
    return refuse(`${name} is "${value}".`, `It must be one of ${risks.slice(1).join(', ')}.`);
  };
  const thresholds: AlertThresholds = {
    memoryWarningPercent: number('memoryWarningPercent'),
    memoryCriticalPercent: number('memoryCriticalPercent'),
    gpuWarningPercent: number('gpuWarningPercent'),
    gpuCriticalPercent: number('gpuCriticalPercent'),
    hysteresisPercent: number('hysteresisPercent'),
    leakBytesPerSecond: number('leakBytesPerSecond'),
    leakGrownBytes: number('leakGrownBytes'),
    leakConfidence: number('leakConfidence'),
    riskWarning: risk('riskWarning'),
    riskCritical: risk('riskCritical'),
    clearAfterSeconds: number('clearAfterSeconds'),
    repeatSeconds: number('repeatSeconds'),
    missedEndCost: number('missedEndCost'),
    falseAlarmCost: number('falseAlarmCost'),
    hostGrowth: asked.hostGrowth ?? defaultThresholds.hostGrowth,
    enabled: { ...defaultThresholds.enabled },
  };
  const enabled = { ...thresholds.enabled };
  for (const kind of alertKinds) enabled[kind] = asked.enabled?.[kind] ?? enabled[kind];
  const [warning, critical] = outOfOrder(thresholds) ?? [];
  if (warning === undefined || critical === undefined) return { ...thresholds, enabled };
  return refuse(
    `${warning} (${thresholds[warning]}) is above ${critical} (${thresholds[critical]}).`,
    'The warning level must not be above the critical level: change one of them.',
  );
}

const levels = [
  ['memoryWarningPercent', 'memoryCriticalPercent'],
  ['gpuWarningPercent', 'gpuCriticalPercent'],
  ['riskWarning', 'riskCritical'],
] as const;

/** The first warning level that is above its critical level, with that. */
export function outOfOrder(
  thresholds: Pick<AlertThresholds, (typeof levels)[number][number]>,
): (typeof levels)[number] | undefined {
  return levels.find(
    ([warning, critical]) => rank(thresholds[warning]) > rank(thresholds[critical]),
  );
}

function refuse(fact: string, next: string): never {
  throw new Failure({ kind: 'input', code: 'bad-threshold', fact, next });
}

function rank(value: number | Risk): number {
  return typeof value === 'number' ? value : risks.indexOf(value);
}
