import type { SlurmCommand } from './commands.js';
import type { SlurmJobFolder } from './job-folder.js';
import type { SlurmJob } from './job-states.js';
import { attemptOf } from './submit-attempt.js';
import { silentMs } from './turns.js';

/**
 * Slurm holds a job whose launch failed; it may go on. One that has ended may not: a controller that
 * was killed and comes back with an older state launches it a second time. While a node still runs it,
 * it stays held.
 */
export async function releaseHeld(
  folder: Pick<SlurmJobFolder, 'key' | 'end' | 'mayBeRunning'>,
  slurm: readonly Pick<SlurmJob, 'id' | 'comment' | 'arrayTask' | 'isHeldAfterLaunch'>[],
  run: SlurmCommand,
): Promise<void> {
  for (const job of slurm) {
    const attempt = job.isHeldAfterLaunch ? attemptOf(folder.key, job) : undefined;
    if (attempt === undefined) continue;
    const { task, number } = attempt;
    if (folder.end(task, number) !== undefined) await run('scancel', [job.id]);
    else if (!folder.mayBeRunning(task, number, silentMs))
      await run('scontrol', ['release', job.id]);
  }
}
