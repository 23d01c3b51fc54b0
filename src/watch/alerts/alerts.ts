import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import { chanceWords } from '../chance-words.js';
import {
  type Alert,
  type AlertKind,
  type DeviceState,
  type Forecast,
  type Leak,
  type Risk,
  risks,
} from '../types.js';
import type { AlertThresholds } from './alert-thresholds.js';

/** When something is. */
export interface Instant {
  /** Seconds since watching began. */
  readonly atSeconds: number;
  /** Milliseconds since 1970. */
  readonly epochMs: number;
}

/** Turns the state of devices, as time goes by, into alerts worth telling. */
export interface Alerts {
  /** What is new at this instant; nothing for most of them. */
  update(input: AlertInput, at: Instant): readonly Alert[];
  /** The device is gone, and with it what was raised: those alerts, cleared. */
  forget(input: Pick<AlertInput, 'info'>, at: Instant): readonly Alert[];
  /** Raised on the device and not cleared. */
  active(deviceId: string): readonly Alert[];
}

/** One thing to warn of: a kind, on a device, in a process where it is about one. */
interface Entry {
  /** What was last raised, while it is not cleared. */
  active: Alert | undefined;
  /** Since when the condition is away, while an alert is active. */
  absentSince: number | undefined;
  /** When an alert of this severity was last raised. */
  readonly raisedAt: { warning: number; critical: number };
}

/**
 * For each kind, device and process: raised when its condition holds, then silent until it is
 * cleared; raised again before that only to say that it became critical. No severity is raised
 * more than once in `repeatSeconds`: a condition that comes back sooner waits that long.
 *
 * @example
 * const alerts = createAlerts(resolveThresholds({ gpuWarningPercent: 85 }));
 * for (const alert of alerts.update(state, at)) notify(alert.message);
 */
export function createAlerts(thresholds: AlertThresholds): Alerts {
  const devices = new Map<string, Map<string, Entry>>();

  function entriesOf(deviceId: string): Map<string, Entry> {
    const known = devices.get(deviceId);
    if (known) return known;
    const made = new Map<string, Entry>();
    devices.set(deviceId, made);
    return made;
  }

  /** Whether `clearAfterSeconds` is up; use has its margin instead and need not wait. */
  function clears(entry: Entry, condition: Condition, now: number): boolean {
    if (condition.standing !== 'absent') {
      entry.absentSince = undefined;
      return false;
    }
    if (condition.kind !== 'leak' && condition.kind !== 'out-of-memory-risk') return true;
    entry.absentSince ??= now;
    return now - entry.absentSince >= thresholds.clearAfterSeconds;
  }

  function judge(entry: Entry, condition: Condition, input: AlertInput, at: Instant): Alert[] {
    const { active, raisedAt } = entry;
    if (active && clears(entry, condition, at.atSeconds)) {
      entry.active = undefined;
      return [alertOf({ ...condition, severity: active.severity }, 'cleared', input, at)];
    }
    const { severity, standing } = condition;
    const worse = active?.severity === 'warning' && severity === 'critical';
    if (standing !== 'present' || (active && !worse)) return [];
    if (at.atSeconds - raisedAt[severity] < thresholds.repeatSeconds) return [];
    raisedAt[severity] = at.atSeconds;
    entry.absentSince = undefined;
    entry.active = alertOf(condition, 'raised', input, at);
    return [entry.active];
  }

  /** Whether a raising of it is so fresh that the next one must wait. */
  function isResting({ raisedAt }: Entry, now: number): boolean {
    return now - Math.max(raisedAt.warning, raisedAt.critical) < thresholds.repeatSeconds;
  }

  function alertOf(
    condition: Condition,
    state: Alert['state'],
    input: AlertInput,
    { atSeconds, epochMs }: Instant,
  ): Alert {
    return {
      kind: condition.kind,
      state,
      severity: condition.severity,
      deviceId: input.info.id,
      ...(condition.pid !== undefined && { pid: condition.pid }),
      atSeconds,
      epochMs,
      ...wordsFor(condition, state, input, thresholds),
      provenance: input.info.provenance,
    };
  }

  return {
    update(input, at) {
      const entries = entriesOf(input.info.id);
      const conditions = conditionsOf(input, thresholds);
      const emitted: Alert[] = [];
      for (const condition of conditions) {
        const key = keyOf(condition);
        const entry = entries.get(key) ?? (condition.standing === 'present' && newEntry());
        if (!entry) continue;
        entries.set(key, entry);
        emitted.push(...judge(entry, condition, input, at));
      }
      for (const [key, entry] of entries) {
        const { active } = entry;
        // A leak in a process that is no longer spoken of is away. Use that is not known just now
        // says nothing: its alert stays.
        if (active?.kind === 'leak' && !conditions.some((condition) => keyOf(condition) === key)) {
          emitted.push(...judge(entry, { ...active, standing: 'absent' }, input, at));
        }
        // Processes come and go: what has nothing left to remember is forgotten.
        if (!entry.active && !isResting(entry, at.atSeconds)) entries.delete(key);
      }
      return emitted;
    },
    forget(input, at) {
      const emitted: Alert[] = [];
      for (const entry of devices.get(input.info.id)?.values() ?? []) {
        if (!entry.active) continue;
        emitted.push({
          ...entry.active,
          ...at,
          state: 'cleared',
          message: `${nameOf(input)} is gone.`,
          recommendations: [],
        });
        entry.active = undefined;
        entry.absentSince = undefined;
      }
      return emitted;
    },
    active(deviceId) {
      const entries = [...(devices.get(deviceId)?.values() ?? [])];
      return entries.flatMap(({ active }) => (active ? [active] : []));
    },
  };
}

function keyOf({ kind, pid }: Pick<Condition, 'kind' | 'pid'>): string {
  return pid === undefined ? kind : `${kind} ${pid}`;
}

function newEntry(): Entry {
  const never = Number.NEGATIVE_INFINITY;
  return {
    active: undefined,
    absentSince: undefined,
    raisedAt: { warning: never, critical: never },
  };
}

/** What alerts are judged by: a part of the state of a device. */
export type AlertInput = Pick<
  DeviceState,
  'info' | 'latest' | 'processes' | 'forecast' | 'leak' | 'processLeaks'
>;

type Severity = 'warning' | 'critical';

/** How one thing to warn of stands at one instant. Made at every sample, so it is kept small. */
interface Condition {
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
function conditionsOf(input: AlertInput, thresholds: AlertThresholds): Condition[] {
  const { enabled } = thresholds;
  const found: Condition[] = [];
  const percent = usedPercent(input);
  if (isKnown(percent)) {
    for (const kind of useKinds[input.info.kind]) {
      if (enabled[kind]) found.push(useCondition(kind, percent, thresholds));
    }
  }
  // Growth of a host is mostly that of programs which are no job: compilers, browsers, tests.
  if (input.info.kind === 'host' && !thresholds.hostGrowth) return found;
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
function useLine(kind: UseKind, thresholds: AlertThresholds): number {
  return thresholds[useLines[kind]];
}

function usedPercent({ latest }: Pick<AlertInput, 'latest'>): Known<number> {
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

/** What an alert says: one sentence a person can act on, and what to do. */
interface AlertWords {
  readonly message: string;
  readonly recommendations: readonly string[];
}

function wordsFor(
  condition: Condition,
  state: Alert['state'],
  input: AlertInput,
  thresholds: AlertThresholds,
): AlertWords {
  const message = messageFor(condition, state, input, thresholds);
  return { message, recommendations: state === 'raised' ? adviceFor(condition, input) : [] };
}

function nameOf({ info }: Pick<AlertInput, 'info'>): string {
  return `${info.id} (${info.name}${info.provenance === 'simulated' ? ', simulated' : ''})`;
}

function messageFor(
  { kind, severity, pid }: Condition,
  state: Alert['state'],
  input: AlertInput,
  thresholds: AlertThresholds,
): string {
  const name = nameOf(input);
  if (kind === 'out-of-memory-risk') return riskMessage(name, state, input.forecast);
  if (kind === 'leak') {
    const leak = pid === undefined ? input.leak : input.processLeaks.get(pid);
    const who = pid === undefined ? name : `${processName(input, pid)} on ${name}`;
    return leakMessage(who, state, leak);
  }
  const { usedBytes, totalBytes } = input.latest;
  const percent = usedPercent(input);
  const share = isKnown(percent) ? `${percent.toFixed(1)} %` : 'an unknown share';
  return (
    `${name} uses ${share} of its memory, ${formatBytes(usedBytes)} of ` +
    `${formatBytes(totalBytes)}; the ${severity} line is ${useLine(kind, thresholds)} %.`
  );
}

function riskMessage(name: string, state: Alert['state'], forecast: Forecast): string {
  const { etaSeconds, lowSeconds, highSeconds, reason } = forecast;
  if (state === 'cleared') return `${name} is no longer about to run out of memory. ${reason}`;
  if (etaSeconds === 0) return `${name} is out of memory, or nearly so. ${reason}`;
  if (typeof etaSeconds !== 'number') return `${name} may run out of memory. ${reason}`;
  const bounded = typeof lowSeconds === 'number' && typeof highSeconds === 'number';
  const between = bounded
    ? ` (between ${formatSeconds(lowSeconds)} and ${formatSeconds(highSeconds)})`
    : '';
  const chance = chanceWords(forecast);
  const sure = chance === undefined ? '' : `, ${chance}`;
  return `${name} is expected to run out of memory in ${formatSeconds(etaSeconds)}${between}${sure}. ${reason}`;
}

function leakMessage(who: string, state: Alert['state'], leak: Leak | undefined): string {
  if (state === 'cleared' || !leak) return `${who} does not leak any more.`;
  const rate = isKnown(leak.bytesPerSecond)
    ? `${formatBytes(Math.round(leak.bytesPerSecond))} a second`
    : 'at an unknown rate';
  const grown = isKnown(leak.grownBytes) ? `, ${formatBytes(leak.grownBytes)} so far` : '';
  return `${who} leaks ${rate}${grown}.`;
}

function processName({ processes }: AlertInput, pid: number): string {
  const name = isKnown(processes) ? processes.find((one) => one.pid === pid)?.name : undefined;
  return name === undefined || name === 'unknown' ? `Process ${pid}` : `${name} (process ${pid})`;
}

const seeProcesses = ['See which processes hold the memory, and whether it still grows.'];

/** The forecast brings its own. */
const advice: Readonly<Record<Exclude<AlertKind, 'out-of-memory-risk'>, readonly string[]>> = {
  'memory-warning': seeProcesses,
  'memory-critical': [
    'Stop what need not run now: the kernel kills a process when nothing is left.',
    'Use fewer data loader workers, or smaller caches.',
  ],
  'gpu-warning': seeProcesses,
  'gpu-critical': [
    'Lower the batch size, or turn on gradient checkpointing.',
    'Stop what need not run on this device.',
  ],
  leak: [
    'Look for tensors kept in a list or a closure, and for a loss added up without .item().',
    'Record a memory snapshot to see the stack that holds the memory.',
  ],
};

function adviceFor({ kind }: Condition, { forecast }: AlertInput): readonly string[] {
  return kind === 'out-of-memory-risk' ? forecast.recommendations : advice[kind];
}
