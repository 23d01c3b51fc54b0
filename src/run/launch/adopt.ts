import { rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listPids, readKernelBytes } from '../../device/kernel-files.js';
import type { Clock } from '../../time/clock.js';
import type { Known } from '../../units/known.js';
import type { BoundLog } from '../log/bound-log.js';
import { readLogPart } from '../log/read-log-part.js';
import { environmentLimitBytes, hasVariable, readProcesses } from '../processes/process-table.js';
import { readNumberFile } from '../store/run-folder.js';
import { type EndingOptions, findEnding } from './ending.js';
import type { LaunchedProcess, LaunchFiles } from './launch.js';
import type { OutputPlan, RawOutput } from './outputs.js';

const chunkBytes = 256 * 1024;
const followSeconds = 0.1;

/**
 * A job that an earlier supervisor started and did not live to see end. What it prints goes where
 * it went before; from the file that its drainer keeps we see it, too.
 */
export function adoptJob(
  options: EndingOptions & {
    /** Outputs that show the program's output now. */
    readonly outputs: { readonly stdout: RawOutput; readonly stderr: RawOutput };
    readonly onOutput: (bytes: Uint8Array) => void;
    /** Holds such a file to a limit, where it has one. */
    readonly hold: ((path: string) => BoundLog) | undefined;
  },
): LaunchedProcess {
  const { files, clock, procRoot, onOutput, outputs, hold } = options;
  const show = (output: RawOutput) => async (bytes: Uint8Array) => {
    onOutput(bytes);
    await output.write(bytes).catch(() => {});
  };
  const names: readonly (readonly [OutputPlan['name'], RawOutput])[] = [
    ['both', outputs.stdout],
    ['stdout', outputs.stdout],
    ['stderr', outputs.stderr],
  ];
  const followers = names.map(([name, to]) => follow(files.lateOutput(name), clock, show(to)));
  const held = hold === undefined ? [] : names.map(([name]) => hold(files.lateOutput(name)));
  const ended: Promise<Known<number>> = findEnding(options);
  return {
    pid: Promise.resolve(readNumberFile(files.jobPid)),
    keeperPid: readNumberFile(files.keeperPid),
    ended,
    async drained(timeoutMs) {
      // The last words of a job tell why it ended; its drainers may still be about to write them.
      const latest = clock.seconds() + timeoutMs / 1000;
      const paths = names.map(([name]) => files.lateOutput(name));
      while (isDraining(procRoot, paths) && clock.seconds() < latest) {
        await clock.waitUntil(clock.seconds() + followSeconds);
      }
      await Promise.all(followers.map((follower) => follower.end()));
      await Promise.all(held.map((log) => log.release()));
    },
    resize() {},
  };
}

/** Whether a drainer is there that writes to one of these files: it has its name in its arguments. */
function isDraining(procRoot: string, paths: readonly string[]): boolean {
  return listPids(procRoot).some((pid) => {
    const words = readKernelBytes(join(procRoot, String(pid), 'cmdline'), environmentLimitBytes);
    return paths.some((path) => words?.includes(`\0${path}\0`));
  });
}

/** Reads a file that grows, from its start; what is dropped of it meanwhile is passed over. */
function follow(
  path: string,
  clock: Clock,
  take: (bytes: Uint8Array) => Promise<void>,
): { end(): Promise<void> } {
  const over = new AbortController();
  /** As far as it goes now: a job that prints faster than we read must not hold us. */
  const readOn = async (from: number): Promise<number> => {
    const end = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    let at = from;
    while (at < end) {
      const { bytes, next } = await readLogPart(path, at, chunkBytes);
      if (next === at) break;
      at = next;
      await take(bytes);
    }
    return at;
  };
  const following = (async () => {
    for (let at = 0; ; ) {
      const isLast = over.signal.aborted;
      at = await readOn(at).catch(() => at);
      if (isLast) return;
      await clock.waitUntil(clock.seconds() + followSeconds, over.signal);
    }
  })();
  return {
    async end() {
      over.abort();
      await following;
    },
  };
}

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
