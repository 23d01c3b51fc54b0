import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { accountEnvironment } from '../../run/launch/become-order.js';
import { openJournal, readJournal } from '../../run/store/journal.js';
import { readNumberFile } from '../../run/store/number-file.js';
import { damagedRun, unknownRun } from '../../run/store/run-failures.js';
import { isRunId, RunFolder } from '../../run/store/run-folder.js';
import { planFile, type RunPlan } from '../../run/store/run-plan.js';
import { readRunReport } from '../../run/store/run-report.js';
import { isSupervised, takeRun } from '../../run/store/supervisor-lock.js';
import { isFinished, unfinishedRuns } from '../../run/sweep.js';
import type { RunReport } from '../../run/types.js';

/** A run that is ours now; or, where it had ended already, its report. */
type Attached =
  | { readonly report: RunReport }
  | {
      readonly plan: RunPlan;
      readonly folder: RunFolder;
      /** The job's own; the attacher's where the job is gone. */
      readonly environment: Readonly<Record<string, string | undefined>>;
    };

export function attachedRun(wanted: string | boolean, home: string, procRoot: string): Attached {
  const id =
    typeof wanted === 'string' ? wanted : latestWithout(unfinishedRuns(home), home, procRoot);
  const folder = new RunFolder(home, id);
  const isThere = isRunId(id) && existsSync(planFile(folder.path));
  if (!isThere) throw unknownRun(id, unfinishedRuns(home));
  const plan = folder.readPlan();
  if (plan === undefined) throw damagedRun(planFile(folder.path));
  if (isFinished(folder)) return { report: readRunReport(folder.reports.json) };
  const { heldBy } = takeRun(folder.path, procRoot);
  if (heldBy !== undefined) {
    throw new Failure({
      kind: 'input',
      code: 'run-is-supervised',
      fact: `The run ${id} is supervised by process ${heldBy}, which is running.`,
      next: 'There is nothing to resume; wait for that process, or interrupt it.',
    });
  }
  const journal = openJournal(folder.journal);
  journal.write({ type: 'attached', at: new Date().toISOString(), pid: process.pid });
  journal.close();
  const { account } = plan;
  const environment =
    account === undefined
      ? (environmentOf(folder, procRoot) ?? process.env)
      : accountEnvironment(process.env, account);
  return { plan, folder, environment: { ...environment, ...plan.environment } };
}

function latestWithout(open: readonly string[], home: string, procRoot: string): string {
  const free = open.findLast((id) => !isSupervised(new RunFolder(home, id).path, procRoot));
  if (free === undefined) throw unknownRun('without a supervisor', open);
  return free;
}

/** Never written to the disk, for it may hold secrets: it is read from the job while that lives. */
function environmentOf(
  folder: RunFolder,
  procRoot: string,
): Readonly<Record<string, string>> | undefined {
  const last = readJournal(folder.journal).findLast(({ type }) => type === 'started');
  if (last?.type !== 'started') return undefined;
  const pid = readNumberFile(folder.attemptFiles(last.number).jobPid);
  if (pid === undefined) return undefined;
  try {
    const text = readFileSync(join(procRoot, String(pid), 'environ'), 'utf8');
    const pairs = text.split('\0').flatMap((pair) => {
      const at = pair.indexOf('=');
      return at > 0 ? [[pair.slice(0, at), pair.slice(at + 1)] as const] : [];
    });
    return Object.fromEntries(pairs);
  } catch {
    return undefined;
  }
}
