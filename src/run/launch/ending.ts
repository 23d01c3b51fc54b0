import { rmSync, statSync, writeFileSync } from 'node:fs';
import { diskFull } from '../../files/system-errors.js';
import type { Clock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import { readProcess } from '../processes/process-table.js';
import { readNumberFile } from '../store/run-folder.js';
import { keeperHasNoPlace } from './keeper-scripts.js';
import type { LaunchFiles } from './launch.js';

export interface EndingOptions {
  readonly files: LaunchFiles;
  readonly procRoot: string;
  readonly clock: Clock;
  /** Whether the process of that pid is still the one of this run. */
  readonly isOurs: (pid: number) => boolean;
  /** Takes the exit code of an orphan that became our child. */
  readonly reap: (pid: number) => number | undefined;
}

const lookSeconds = 0.1;
/** The keeper writes its file right after the job's end; a machine that swaps may take a while. */
const lastWordSeconds = 1;

/** Whether the keeper, or the job, of an attempt is there. */
function isThere(pid: number | undefined, options: EndingOptions): boolean {
  if (pid === undefined) return false;
  const found = readProcess(options.procRoot, pid);
  return found !== undefined && found.state !== 'Z' && options.isOurs(pid);
}

/** How an attempt ended, of which this process saw its keeper end, with that exit code. */
export async function endingOf(
  keeper: Known<number>,
  options: EndingOptions,
): Promise<Known<number>> {
  const { files } = options;
  if (keeper === keeperHasNoPlace && readNumberFile(files.keeperPid) === undefined) {
    throw diskFull();
  }
  // What the keeper wrote down comes first: another one may have had the place.
  const written = await findEnding(options);
  return isKnown(written) ? written : keeper;
}

/**
 * How an attempt ended without a supervisor: what its keeper wrote down; or, where the keeper was
 * killed, what the kernel tells its new parent. `unknown` where both are gone without a word.
 */
export async function findEnding(options: EndingOptions): Promise<Known<number>> {
  const code = await lookForEnding(options);
  // The room that a keeper took for the code, and was killed before it used it.
  releaseRoom(options.files.exitCode);
  return code;
}

async function lookForEnding(options: EndingOptions): Promise<Known<number>> {
  const { files, clock, reap } = options;
  for (;;) {
    const code = readNumberFile(files.exitCode);
    if (code !== undefined) return code;
    const job = readNumberFile(files.jobPid);
    const orphan = job === undefined ? undefined : reap(job);
    if (orphan !== undefined) return orphan;
    const keeper = readNumberFile(files.keeperPid);
    if (!isThere(keeper, options) && !isThere(job, options)) break;
    await clock.waitUntil(clock.seconds() + lookSeconds);
  }
  await clock.waitUntil(clock.seconds() + lastWordSeconds);
  const job = readNumberFile(files.jobPid);
  const orphan = job === undefined ? undefined : reap(job);
  return readNumberFile(files.exitCode) ?? orphan ?? 'unknown';
}

/**
 * Takes the room for the exit code of a program before it begins. On a full disk this throws, and the
 * program is not begun: how it ended could not be written down.
 */
export function takeRoom({ exitCode, keeperPid }: LaunchFiles): void {
  // A keeper that found no room for its pid began nothing, and left its file empty: the next one needs
  // the place. A keeper that runs was found before, by the table of processes.
  if (statSync(keeperPid, { throwIfNoEntry: false })?.size === 0) rmSync(keeperPid);
  releaseRoom(exitCode);
  try {
    writeFileSync(`${exitCode}.new`, 'xxx\n', { mode: 0o600, flag: 'wx' });
  } catch (error) {
    releaseRoom(exitCode);
    throw error;
  }
}

/** Gives back what was not used, whatever has its name. */
export function releaseRoom(exitCode: string): void {
  rmSync(`${exitCode}.new`, { recursive: true, force: true });
}
