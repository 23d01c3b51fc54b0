import type { Alert } from '../../api/types.js';

/** A warning from when it was raised to when it was cleared. */
export interface AlertEpisode {
  readonly alert: Alert;
  /** Undefined while it holds. */
  readonly clearedMs: number | undefined;
}

/** Alerts with their ends, the latest first: one line for what happened once. */
export function alertEpisodes(alerts: readonly Alert[]): readonly AlertEpisode[] {
  const open = new Map<string, Alert>();
  const episodes: AlertEpisode[] = [];
  for (const alert of alerts) {
    const key = [alert.deviceId, alert.kind, alert.pid].join(' ');
    const before = open.get(key);
    if (alert.state === 'cleared') {
      // One that was raised before this page knew of it has no line of its own.
      if (before !== undefined) episodes.push({ alert: before, clearedMs: alert.epochMs });
      open.delete(key);
    } else {
      // Raised again, as when it becomes critical: the worse one stays for both.
      const worse = before?.severity === 'critical' ? before : alert;
      open.set(key, worse);
    }
  }
  for (const alert of open.values()) episodes.push({ alert, clearedMs: undefined });
  return episodes.toSorted((one, other) => other.alert.epochMs - one.alert.epochMs);
}
