import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readKernelBytes } from '../../device/kernel-files.js';
import { environmentLimitBytes, hasVariable, readProcesses } from '../processes/process-table.js';
import type { LaunchFiles } from './launch.js';

/** Processes of an attempt that runs. */
export interface Launched {
  readonly keeper: number | undefined;
  readonly job: number | undefined;
}

/**
 * An attempt that runs, by the table of processes: for one whose files were removed or damaged, and
 * that must not be launched a second time. Its keeper has the file of its own pid in its arguments;
 * without a keeper, a job is told by the variables that it was given.
 */
export function findLaunched(
  procRoot: string,
  { keeperPid }: Pick<LaunchFiles, 'keeperPid'>,
  variables: readonly string[],
): Launched | undefined {
  const table = readProcesses(procRoot).filter(({ state }) => state !== 'Z');
  const keeper = table.find(({ pid }) => isKeeper(procRoot, pid, keeperPid))?.pid;
  if (keeper !== undefined) {
    return { keeper, job: table.find(({ parent }) => parent === keeper)?.pid };
  }
  const own = table.filter(({ pid }) => variables.every((one) => hasVariable(procRoot, pid, one)));
  const [first] = own.toSorted((a, b) => a.started - b.started || a.pid - b.pid);
  return first && { keeper: undefined, job: first.pid };
}

/** Writes down again what the files should have told. */
export function restoreLaunchFiles(files: LaunchFiles, { keeper, job }: Launched): void {
  if (keeper !== undefined) restore(files.keeperPid, keeper);
  if (job !== undefined) restore(files.jobPid, job);
}

/** Whatever has its name is no file of ours: opening a named pipe would wait without end. */
function restore(path: string, pid: number): void {
  rmSync(path, { recursive: true, force: true });
  writeFileSync(path, `${pid}\n`, { mode: 0o600, flag: 'wx' });
}

function isKeeper(procRoot: string, pid: number, keeperPid: string): boolean {
  const bytes = readKernelBytes(join(procRoot, String(pid), 'cmdline'), environmentLimitBytes);
  return bytes?.includes('\0plimsoll-keeper\0') === true && bytes.includes(`\0${keeperPid}\0`);
}
