import type { Known } from '../../units/known.js';
import { objectsIn } from '../json-values.js';
import type { SlurmCommand } from './commands.js';
import { numberIn, slurmDocument } from './values.js';

/** Seconds until the allocation ends; `unknown` where it has no limit or Slurm does not answer. */
export async function secondsLeftOf(
  jobId: string,
  run: SlurmCommand,
  nowMs: number,
): Promise<Known<number>> {
  try {
    const text = await run('squeue', ['--json', `--jobs=${jobId}`]);
    const [job = {}] = objectsIn(slurmDocument(text, 'squeue')['jobs']);
    const [limit, end] = [numberIn(job['time_limit']), numberIn(job['end_time'])];
    // Without a limit Slurm writes an end in a year, none, or one that has passed.
    const left = end === 'unknown' ? 0 : end - nowMs / 1000;
    return limit === 'unknown' || left <= 0 ? 'unknown' : left;
  } catch {
    return 'unknown';
  }
}
