import { existsSync, writeFileSync } from 'node:fs';
import { listKernelFolder } from '../device/kernel-files.js';
import { Failure } from '../failure.js';
import { isAbandoned, writeLastReports } from './abandoned.js';
import { cgroupPids, listLimitCgroups, readCgroup, removeCgroup } from './limit/cgroup.js';
import { readJournal } from './store/journal.js';
import { listRuns, RunFolder } from './store/run-folder.js';
import { isSupervised } from './store/supervisor-lock.js';

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
