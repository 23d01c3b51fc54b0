import type { Tick } from '../../../src/report/ticks.js';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const steps = [
  second,
  2 * second,
  5 * second,
  10 * second,
  15 * second,
  30 * second,
  minute,
  2 * minute,
  5 * minute,
  10 * minute,
  15 * minute,
  30 * minute,
  hour,
  2 * hour,
  3 * hour,
  6 * hour,
  12 * hour,
  day,
  2 * day,
  7 * day,
] as const;

/**
 * Where a time axis is marked, at round times of the clock on the wall. `offsetMinutes` is what
 * `getTimezoneOffset` says.
 */
export function clockTicks(
  fromMs: number,
  toMs: number,
  wanted: number,
  offsetMinutes: number,
): readonly Tick[] {
  const least = (toMs - fromMs) / Math.max(1, wanted);
  const step = steps.find((candidate) => candidate >= least) ?? 30 * day;
  const shift = offsetMinutes * minute;
  const ticks: Tick[] = [];
  for (let at = Math.ceil((fromMs - shift) / step) * step; at + shift <= toMs; at += step) {
    ticks.push({ at: at + shift, label: clockLabel(at, step) });
  }
  return ticks;
}

/** `localMs` counts as if it were UTC, so that no clock of the machine is asked. */
function clockLabel(localMs: number, step: number): string {
  const text = new Date(localMs).toISOString();
  if (step >= day) return text.slice(5, 10);
  return step >= minute ? text.slice(11, 16) : text.slice(11, 19);
}
