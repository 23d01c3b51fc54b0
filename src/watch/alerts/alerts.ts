import type { Alert } from '../types.js';
import { type AlertInput, type Condition, conditionsOf } from './alert-conditions.js';
import type { AlertThresholds } from './alert-thresholds.js';
import { nameOf, wordsFor } from './alert-words.js';

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
