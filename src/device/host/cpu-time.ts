import type { Known } from '../../units/known.js';

/** Time all processors together spent since the start, in ticks. */
export interface CpuTime {
  readonly busy: number;
  readonly total: number;
}

/** Reads the first line of /proc/stat. */
export function parseCpuTime(text: string): CpuTime | undefined {
  const line = /^cpu +(\d+(?: \d+)+)/.exec(text)?.[1];
  if (line === undefined) return undefined;
  // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user already.
  const ticks = line.split(' ').slice(0, 8).map(Number);
  const total = ticks.reduce((sum, value) => sum + value, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { busy: total - idle, total };
}

/** How busy the processors were between two readings, 0 to 100. */
export function cpuPercent(before: CpuTime | undefined, after: CpuTime | undefined): Known<number> {
  if (before === undefined || after === undefined) return 'unknown';
  const total = after.total - before.total;
  const busy = after.busy - before.busy;
  // Ticks may step back a little when a processor goes offline.
  if (total <= 0 || busy < 0) return 'unknown';
  return Math.round((Math.min(busy, total) / total) * 1000) / 10;
}
