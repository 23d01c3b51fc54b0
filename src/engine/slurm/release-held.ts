import type { SlurmCommand } from './commands.js';
import type { SlurmJobFolder } from './job-folder.js';
import type { SlurmJob } from './job-states.js';

/**
 * Slurm holds a job whose launch failed; it may go on. One that has ended may not: a controller that
 * was killed and comes back with an older state launches it a second time.
 */
export async function releaseHeld(
  folder: Pick<SlurmJobFolder, 'key' | 'end'>,
  slurm: readonly Pick<SlurmJob, 'id' | 'comment' | 'isHeldAfterLaunch'>[],
  run: SlurmCommand,
): Promise<void> {
  for (const { id, comment, isHeldAfterLaunch } of slurm) {
    const prefix = `plimsoll:${folder.key}:`;
    if (!isHeldAfterLaunch || !comment.startsWith(prefix)) continue;
    const [task = '', number = ''] = comment.slice(prefix.length).split('.');
    const end = folder.end(task === 'all' ? 'all' : Number(task), Number(number));
    await (end === undefined ? run('scontrol', ['release', id]) : run('scancel', [id]));
  }
}
