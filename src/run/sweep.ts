import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listKernelFolder } from '../device/kernel-files.js';
import { Failure } from '../failure.js';
import { changesOf } from '../plan/environment/job-environment.js';
import { runIdVariable } from './attempt-environment.js';
import { cgroupPids, listLimitCgroups, readCgroup, removeCgroup } from './limit/cgroup.js';
import { hasVariable, readProcess, readProcesses } from './processes/process-table.js';
import { outcomeOf } from './run-state.js';
import { readJournal } from './store/journal.js';
import type { JournalEntry, StartedEntry } from './store/journal-entry.js';
import { listRuns, RunFolder, readNumberFile } from './store/run-folder.js';
import type { RunPlan } from './store/run-plan.js';
import { isSupervised } from './store/supervisor-lock.js';
import type { Attempt, RunReport } from './types.js';

/** Reports of so many runs are kept; people who want one for longer name a file. */
const keptRuns = 100;

/**
 * Removes what earlier runs left: limits that nothing runs under, folders of runs long finished, and
 * of those that ended without a supervisor and that were not taken up.
 */
export function sweepRuns(home: string, procRoot: string, nowMs: number = Date.now()): void {
  const known = new Set(listRuns(home));
  for (const cgroup of listLimitCgroups(procRoot, listKernelFolder)) {
    const [, id = '', number = ''] = /(\d{8}-\d{9}-[\da-f]{4})-(\d+)$/.exec(cgroup) ?? [];
    // A run of another home, or one that goes on, is not ours to touch.
    if (!known.has(id)) continue;
    ifReadable(() => {
      const folder = new RunFolder(home, id);
      if (isSupervised(folder.path, procRoot) || cgroupPids(cgroup).length > 0) return;
      keepCount(cgroup, folder.attemptFiles(Number(number)).kills);
      removeCgroup(cgroup);
    });
  }
  const finished = runsThat(home, isFinished);
  for (const id of finished.slice(0, Math.max(0, finished.length - keptRuns))) {
    new RunFolder(home, id).remove();
  }
  for (const id of unfinishedRuns(home)) {
    ifReadable(() => {
      const folder = new RunFolder(home, id);
      if (!isAbandoned(folder, id, procRoot, nowMs)) return;
      writeLastReports(folder);
      folder.removeSocket();
      folder.remove();
    });
  }
}

/** A run that a newer version wrote is left as it is; it must not hold up the others. */
function ifReadable(work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
  }
}

function runsThat(home: string, holds: (folder: RunFolder) => boolean): readonly string[] {
  const found: string[] = [];
  for (const id of listRuns(home)) {
    ifReadable(() => {
      if (holds(new RunFolder(home, id))) found.push(id);
    });
  }
  return found;
}

/** Runs that were begun and whose end is not written down. */
export function unfinishedRuns(home: string): readonly string[] {
  return runsThat(home, (folder) => !isFinished(folder));
}

/** The next supervisor of the run will ask whether the kernel killed it. */
function keepCount(cgroup: string, path: string): void {
  for (const version of [1, 2] as const) {
    const { kills } = readCgroup({ version, folder: cgroup });
    if (kills !== 'unknown') writeFileSync(path, `${kills}\n`, { mode: 0o600 });
  }
}

/** The report is the last thing that is written. */
export function isFinished(folder: RunFolder): boolean {
  return (
    readJournal(folder.journal).some(({ type }) => type === 'finished') &&
    existsSync(folder.reports.json)
  );
}

/** Long enough for a holiday: a run that was not taken up by then never will be. */
const abandonedAfterMs = 30 * 24 * 60 * 60 * 1000;

/**
 * Whether a run has ended, it was not taken up, and nothing of it has moved for 30 days. A job that
 * runs on without a supervisor is never abandoned, however old.
 */
function isAbandoned(folder: RunFolder, id: string, procRoot: string, nowMs: number): boolean {
  if (nowMs - lastSignOfLife(folder.path) < abandonedAfterMs) return false;
  // Without a process table it is not known whether it runs.
  if (readProcess(procRoot, process.pid) === undefined) return false;
  if (isSupervised(folder.path, procRoot)) return false;
  const variable = `${runIdVariable}=${id}`;
  return !readProcesses(procRoot).some(
    ({ pid, state }) => state !== 'Z' && hasVariable(procRoot, pid, variable),
  );
}

/**
 * Writes the reports of an ended run again from its files, to the paths that the user asked for; an
 * existing file belongs to another run, and stays. The supervisor that resumes a run writes the
 * HTML.
 */
function writeLastReports(folder: RunFolder): void {
  const plan = folder.readPlan();
  if (plan === undefined) return;
  const text = `${JSON.stringify(lastReport(plan, folder), undefined, 2)}\n`;
  for (const path of plan.reports) {
    if (/\.html?$/i.test(path)) continue;
    try {
      writeFileSync(path, text, { flag: 'wx' });
    } catch {
      // Its folder may be gone after so long a time, or the file is another's.
    }
  }
}

function lastReport(plan: RunPlan, folder: RunFolder): RunReport {
  const past = readJournal(folder.journal);
  const attempts = past.flatMap((entry) => (entry.type === 'ended' ? entry.attempt : []));
  const open = past.findLast(({ type }) => type === 'started' || type === 'ended');
  const endedAt = new Date(lastSignOfLife(folder.path)).toISOString();
  if (open?.type === 'started') {
    const exitCode = readNumberFile(folder.attemptFiles(open.number).exitCode) ?? 'unknown';
    attempts.push(openAttempt(open, past, exitCode, endedAt));
  }
  const exitCode = attempts.at(-1)?.exitCode ?? 'unknown';
  return {
    schema: 1,
    tool: { name: 'plimsoll', version: 'unknown' },
    id: plan.id,
    command: plan.command,
    outcome: outcomeOf(
      exitCode,
      past.some(({ type }) => type === 'stopped'),
    ),
    exitCode,
    startedAt: plan.createdAt,
    endedAt,
    attempts,
    ...changesOf(plan),
    notes: [
      'Its supervisor was lost and the run was not taken up again: this is read from its files.',
    ],
  };
}

function openAttempt(
  { number, settings, command, at, limit }: StartedEntry,
  past: readonly JournalEntry[],
  exitCode: Attempt['exitCode'],
  endedAt: string,
): Attempt {
  return {
    number,
    settings,
    command,
    startedAt: at,
    endedAt,
    exitCode,
    outOfMemory: null,
    rungs: past.flatMap((entry) =>
      entry.type === 'climbed' && entry.number === number ? entry.rung : [],
    ),
    peakBytes: 'unknown',
    source: 'measured',
    peakFrom: 'unknown',
    limit,
    snapshot: null,
  };
}

/** When anything in a folder was last written. */
function lastSignOfLife(path: string): number {
  try {
    const files = readdirSync(path).map((name) => join(path, name));
    return Math.max(...[path, ...files].map((file) => statSync(file).mtimeMs));
  } catch {
    // It is being written to, or removed, by somebody else right now.
    return Number.POSITIVE_INFINITY;
  }
}
