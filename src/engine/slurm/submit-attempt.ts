import { isKnown } from '../../units/known.js';
import type { Task } from '../job-folder.js';
import type { SlurmCommand } from './commands.js';
import type { SlurmAttempt, SlurmJobFolder, SlurmOrder } from './job-folder.js';
import { readJobs } from './job-states.js';
import { batchScript } from './script.js';
import { slurmDocument } from './values.js';

/** What is to be submitted. */
export interface AttemptParts {
  readonly folder: SlurmJobFolder;
  readonly order: SlurmOrder;
  readonly task: Task;
  readonly attempt: SlurmAttempt;
  /** Options of sbatch beside those of the person, such as the dependency on the attempt before. */
  readonly options: readonly string[];
}

export function scriptOf({ folder, order, task, attempt, options }: AttemptParts): string {
  return batchScript({
    name: order.name,
    folder: folder.path,
    attempt: attempt.number,
    cwd: order.cwd,
    request: attempt.request,
    comment: commentOf(folder.key, task, attempt.number),
    plimsoll: order.plimsoll,
    options: [...order.sbatchOptions, ...options],
  });
}

/** Slurm keeps it with the job: so we find a job whose number we never heard. */
export function commentOf(key: string, task: Task, number: number): string {
  return `plimsoll:${key}:${task}.${number}`;
}

/**
 * Submits an attempt that was written down before, and writes down its number. A process that
 * died between the two is followed by one that looks in Slurm first: no attempt is submitted twice.
 */
export async function submitAttempt(parts: AttemptParts, run: SlurmCommand): Promise<SlurmAttempt> {
  const { folder, task, attempt } = parts;
  const written = await submittedBefore(parts, run);
  if (written !== undefined) return written;
  let slurmId: string;
  try {
    const answer = await run('sbatch', ['--parsable'], scriptOf(parts));
    slurmId = answer.trim().split(';')[0] ?? '';
  } catch (error) {
    // The controller may have taken it and died before it answered.
    const found = await findByComment(parts, run).catch(() => undefined);
    if (found === undefined) throw error;
    slurmId = found;
  }
  const submitted = { ...attempt, slurmId };
  folder.writeAttempt(task, submitted);
  return submitted;
}

async function submittedBefore(
  parts: AttemptParts,
  run: SlurmCommand,
): Promise<SlurmAttempt | undefined> {
  const { folder, task, attempt } = parts;
  const known = folder.attempt(task, attempt.number);
  if (known !== undefined && isKnown(known.slurmId) && attempt.slurmId !== 'unknown') return known;
  // Nobody can have submitted the first one before.
  if (attempt.number === 1 && attempt.formerIds === undefined) return undefined;
  const found = await findByComment(parts, run);
  if (found === undefined) return undefined;
  const submitted = { ...attempt, slurmId: found };
  folder.writeAttempt(task, submitted);
  return submitted;
}

async function findByComment(
  { folder, task, attempt }: AttemptParts,
  run: SlurmCommand,
): Promise<string | undefined> {
  const comment = commentOf(folder.key, task, attempt.number);
  const jobs = readJobs(slurmDocument(await run('squeue', ['--json', '--states=all']), 'squeue'));
  const found = jobs.find((job) => job.comment === comment);
  if (found === undefined) return undefined;
  return found.arrayJob === 'none' ? found.id : found.arrayJob;
}
