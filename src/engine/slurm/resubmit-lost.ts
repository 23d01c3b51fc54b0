import { isKnown } from '../../units/known.js';
import { runningMs } from '../job-folder.js';
import type { SlurmCommand } from './commands.js';
import type { SlurmJobFolder, SlurmOrder } from './job-folder.js';
import type { SlurmJob } from './job-states.js';
import { commentOf, submitAttempt } from './submit-attempt.js';

/** What is known of a job that may be lost. */
interface Suspect {
  readonly folder: SlurmJobFolder;
  readonly order: SlurmOrder;
  readonly slurm: readonly SlurmJob[];
  readonly nowMs: number;
}

/** A controller writes its state every few seconds; what it accepted since is lost when it is killed. */
const unsavedMs = 60_000;
/** A node that was silent for so long runs it no more. */
const silentMs = 12 * runningMs;
/** Clocks of a cluster differ a little. */
const clockMs = 5000;
/** The process that began to submit it again has done so by then, or died. */
const claimMs = 60_000;

/**
 * Submits a job again that Slurm's controller accepted and lost: it runs nowhere, Slurm does not know
 * it, and the controller was started right after it was submitted. Where it had started, the node has
 * killed it, as the new controller does not know it. One that somebody cancelled, or that ended long
 * ago, is none of these.
 */
export async function resubmitLost(suspect: Suspect, run: SlurmCommand): Promise<void> {
  const { folder, order, slurm, nowMs } = suspect;
  const attempt = folder.attempt('all', 1);
  if (attempt === undefined || !isKnown(attempt.slurmId)) return;
  const comment = commentOf(folder.key, 'all', 1);
  if (folder.isCancelled || folder.mayRun(silentMs) || slurm.some((job) => job.comment === comment))
    return;
  if (folder.end('all', 1) !== undefined) return;
  const submittedMs = Date.parse(order.submittedAt);
  const bootMs = await controllerBootMs(run);
  if (bootMs === undefined || bootMs < submittedMs - clockMs || bootMs > submittedMs + unsavedMs)
    return;
  if (!folder.claimLost(attempt.slurmId, nowMs - claimMs)) return;
  const formerIds = [...(attempt.formerIds ?? []), attempt.slurmId];
  const again = { ...attempt, slurmId: 'unknown', formerIds };
  await submitAttempt({ folder, order, task: 'all', attempt: again, options: [] }, run);
}

/** When the controller was started. */
async function controllerBootMs(run: SlurmCommand): Promise<number | undefined> {
  const text = await run('scontrol', ['show', 'config']);
  const [, time] = /^BOOT_TIME\s*=\s*(\S+)/m.exec(text) ?? [];
  const ms = Date.parse(time ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}
