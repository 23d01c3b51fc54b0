import type { Known } from '../../units/known.js';

export interface Pressure {
  readonly somePercent: Known<number>;
  readonly fullPercent: Known<number>;
}

/**
 * Reads a pressure stall file, /proc/pressure/memory or a cgroup's memory.pressure: the share of
 * the last 10 s in which some, or all, tasks waited for memory.
 *
 * @example
 * parsePressure('some avg10=1.50 avg60=0.20 avg300=0.00 total=12\n').somePercent; // 1.5
 */
export function parsePressure(text: string): Pressure {
  return { somePercent: average(text, 'some'), fullPercent: average(text, 'full') };
}

function average(text: string, who: 'some' | 'full'): Known<number> {
  const match = new RegExp(`^${who} avg10=(\\d{1,3}(?:\\.\\d+)?) `, 'm').exec(text);
  const percent = match === null ? Number.NaN : Number(match[1]);
  return percent <= 100 ? percent : 'unknown';
}
