import type { ProcessReading } from './types.js';

/** Largest first, those of unknown size last, ties by process id. */
export function sortProcesses(processes: Iterable<ProcessReading>): readonly ProcessReading[] {
  return [...processes].toSorted((a, b) => size(b) - size(a) || a.pid - b.pid);
}

function size(process: ProcessReading): number {
  return process.usedBytes === 'unknown' ? -1 : process.usedBytes;
}
