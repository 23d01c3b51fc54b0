import type { HistoryQueryName } from './queries.js';
import type { Line } from './read-answer.js';
import type { FleetHistory } from './types.js';

/** The lines on one axis of time; null where a line has no point. */
export function fleetHistory(
  lines: Readonly<Partial<Record<HistoryQueryName, Line>>>,
): FleetHistory {
  const values = (name: HistoryQueryName) => new Map(lines[name]?.points);
  const [total, used, reserved] = [
    values('totalBytes'),
    values('usedBytes'),
    values('reservedBytes'),
  ];
  const moments = [...new Set([...total.keys(), ...used.keys(), ...reserved.keys()])].toSorted(
    (one, other) => one - other,
  );
  const column = (of: ReadonlyMap<number, number>) =>
    moments.map((moment) => of.get(moment) ?? null);
  return {
    epochMs: moments.map((moment) => Math.round(moment * 1000)),
    totalBytes: column(total),
    usedBytes: column(used),
    reservedBytes: column(reserved),
  };
}
