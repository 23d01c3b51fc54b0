import { readFile } from 'node:fs/promises';
import { listPids, readKernelFile } from '../kernel-files.js';
import { processName } from '../process-names.js';
import type { ProcessFiles } from './process-list.js';

/** What /proc tells of processes; all of it may be gone while we look. */
export function processFiles(procRoot: string, pageSize: number): ProcessFiles {
  return {
    listPids: () => listPids(procRoot),
    // Threads of the kernel hold none, and a process that has just ended tells nothing.
    residentBytes: (pid) =>
      pageSize * parseResidentPages(readKernelFile(`${procRoot}/${pid}/statm`) ?? ''),
    proportionalBytes: (pid) => readProportional(procRoot, pid),
    name: (pid) => processName(procRoot, pid),
  };
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
    return parseProportional(await readFile(`${procRoot}/${pid}/smaps_rollup`, 'utf8'));
  } catch {
    // Other users' processes do not show it, nor do kernels before 4.14.
    return undefined;
  }
}
