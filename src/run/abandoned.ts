import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { changesOf } from '../plan/environment/job-environment.js';
import { runIdVariable } from './attempt-environment.js';
import { hasVariable, readProcess, readProcesses } from './processes/process-table.js';
import { outcomeOf } from './run-state.js';
import { readJournal } from './store/journal.js';
import type { JournalEntry, StartedEntry } from './store/journal-entry.js';
import { readNumberFile } from './store/number-file.js';
import type { RunFolder } from './store/run-folder.js';
import type { RunPlan } from './store/run-plan.js';
import { isSupervised } from './store/supervisor-lock.js';
import type { Attempt, RunReport } from './types.js';

/** Long enough for a holiday: a run that was not taken up by then never will be. */
const abandonedAfterMs = 30 * 24 * 60 * 60 * 1000;

/**
 * Whether a run has ended, it was not taken up, and nothing of it has moved for 30 days. A job that
 * runs on without a supervisor is never abandoned, however old.
 */
export function isAbandoned(
  folder: RunFolder,
  id: string,
  procRoot: string,
  nowMs: number,
): boolean {
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
 * What its files still tell, written where the person asked for it; a file that is there already is
 * another run's, and stays. HTML is written by the supervisor that takes a run up.
 */
export function writeLastReports(folder: RunFolder): void {
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
