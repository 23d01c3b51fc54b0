import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import type { ProcessReading } from '../contract.js';
import { listPids, readKernelFile } from '../kernel-files.js';
import { processName } from '../process-names.js';
import { sortProcesses } from '../sort-processes.js';

/**
 * How many of the largest processes are measured exactly. The exact figure (PSS: a page shared by
 * n processes counts 1/n for each) makes the kernel walk all pages of the process; the plain one
 * (RSS: shared pages count in full) costs a few microseconds.
 */
const exactlyMeasured = 6;

/** Walking the pages takes some 10 ms for each GiB; beyond this, RSS must do. */
const exactLimitBytes = 8 * GiB;

/** All processes that hold RAM, largest first; `unknown` where /proc shows none. */
export async function hostProcesses(
  procRoot: string,
  pageSize: number,
): Promise<Known<readonly ProcessReading[]>> {
  const resident: { pid: number; usedBytes: number }[] = [];
  for (const pid of listPids(procRoot)) {
    const pages = parseResidentPages(readKernelFile(join(procRoot, String(pid), 'statm')) ?? '');
    // Threads of the kernel hold none, and a process that has just ended tells nothing.
    if (pages > 0) resident.push({ pid, usedBytes: pages * pageSize });
  }
  if (resident.length === 0) return 'unknown';
  const largest = resident
    .filter(({ usedBytes }) => usedBytes <= exactLimitBytes)
    .toSorted((a, b) => b.usedBytes - a.usedBytes)
    .slice(0, exactlyMeasured);
  const exact = new Map<number, number>();
  for (const { pid } of largest) {
    const bytes = await readProportional(procRoot, pid);
    if (bytes !== undefined) exact.set(pid, bytes);
  }
  return sortProcesses(
    resident.map(({ pid, usedBytes }) => ({
      pid,
      name: processName(procRoot, pid),
      usedBytes: exact.get(pid) ?? usedBytes,
    })),
  );
}

/** The second figure of /proc/PID/statm; 0 where it cannot be read. */
export function parseResidentPages(statm: string): number {
  const match = /^\d+ (\d{1,12}) /.exec(statm);
  return match === null ? 0 : Number(match[1]);
}

/** The line `Pss:` of /proc/PID/smaps_rollup. */
export function parseProportional(rollup: string): number | undefined {
  const match = /^Pss:\s+(\d{1,12}) kB$/m.exec(rollup);
  return match === null ? undefined : Number(match[1]) * 1024;
}

/** Through the thread pool: the walk over the pages must not hold up everything else. */
async function readProportional(procRoot: string, pid: number): Promise<number | undefined> {
  try {
    const path = join(procRoot, String(pid), 'smaps_rollup');
    return parseProportional(await readFile(path, 'utf8'));
  } catch {
    // Other users' processes do not show it, nor do kernels before 4.14.
    return undefined;
  }
}
