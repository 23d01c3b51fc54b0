import { isKnown } from '../../units/known.js';
import { shellWords } from '../../units/words.js';
import type { Task } from '../job-folder.js';
import { startedAgain } from '../node/run-attempt.js';
import { type SlurmCommand, slurmDocument } from './commands.js';
import type { SlurmAttempt, SlurmJobFolder, SlurmOrder } from './job-folder.js';
import { isRefusedLaunch, readJobs, type SlurmJob } from './job-states.js';
import { type SlurmRequest, withoutArray } from './request.js';

/** The attempt to submit. */
export interface AttemptParts {
  readonly folder: SlurmJobFolder;
  readonly order: SlurmOrder;
  readonly task: Task;
  readonly attempt: SlurmAttempt;
  /** Options of sbatch beside those of the person, such as the dependency on the attempt before. */
  readonly options: readonly string[];
}

/** An attempt after the first: of an array it is one task. */
export function successor(
  folder: SlurmJobFolder,
  order: SlurmOrder,
  task: Task,
  attempt: SlurmAttempt,
  options: readonly string[],
): AttemptParts {
  return {
    folder,
    order: { ...order, sbatchOptions: withoutArray(order.sbatchOptions) },
    task,
    attempt,
    options: [...options, ...(task === 'all' ? [] : [`--array=${task}`])],
  };
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
  return `${commentPrefix(key)}${task}.${number}`;
}

/** Which attempt of this job a job of Slurm is; undefined where it is another job. */
export function attemptOf(
  key: string,
  { comment, arrayTask }: Pick<SlurmJob, 'comment' | 'arrayTask'>,
): { readonly task: Task; readonly number: number } | undefined {
  const [, named, number] =
    /^(all|\d+)\.(\d+)$/.exec(comment.slice(commentPrefix(key).length)) ?? [];
  if (!comment.startsWith(commentPrefix(key)) || named === undefined) return undefined;
  // The first attempt is one job for all tasks of an array.
  const task =
    named === 'all' ? (typeof arrayTask === 'number' ? arrayTask : 'all') : Number(named);
  return { task, number: Number(number) };
}

function commentPrefix(key: string): string {
  return `plimsoll:${key}:`;
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
    // Variables such as SBATCH_PARTITION would win over the same words in a script, and not over these.
    const words = ['--parsable', ...parts.order.sbatchOptions, ...parts.options];
    const answer = await run('sbatch', words, scriptOf(parts));
    slurmId = answer.trim().split(';')[0] ?? '';
  } catch (error) {
    // The controller may have taken it and died before it answered.
    const found = await findByComment(parts, run).catch(() => undefined);
    if (found === undefined) throw error;
    slurmId = found;
  }
  const submitted = { ...attempt, slurmId, submittedAt: new Date().toISOString() };
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
  const found = jobs.find((job) => job.comment === comment && !isRefusedLaunch(job));
  if (found === undefined) return undefined;
  return found.arrayJob === 'none' ? found.id : found.arrayJob;
}

/** The parts of a batch script. */
interface ScriptParts {
  readonly name: string;
  /** Our folder for this job, on the shared file system. */
  readonly folder: string;
  /** Which submission of the job it is, from 1 on. */
  readonly attempt: number;
  readonly cwd: string;
  readonly request: SlurmRequest;
  /** Marks the job as ours, and which one it is. */
  readonly comment: string;
  /** The command `plimsoll` as the nodes start it. */
  readonly plimsoll: readonly string[];
  /** Options of sbatch that the person gave; they come last, so that they win. */
  readonly options: readonly string[];
}

/** The script that `sbatch` gets. */
export function batchScript(parts: ScriptParts): string {
  const { request, folder, plimsoll } = parts;
  const options = [
    `--job-name=${parts.name}`,
    `--comment=${parts.comment}`,
    `--chdir=${parts.cwd}`,
    `--output=${folder}/log-%j.txt`,
    '--open-mode=append',
    '--requeue',
    ...(request.gres === 'none' ? [] : [`--gres=${request.gres}`]),
    ...(request.constraint === undefined ? [] : [`--constraint=${request.constraint}`]),
    ...(request.partition === 'default' ? [] : [`--partition=${request.partition}`]),
    ...hostOptions(request, parts.options),
    ...parts.options,
  ];
  const command = `${shellWords([...plimsoll, 'on-node', folder, String(parts.attempt)])} "$start"`;
  const ended = `${shellWords([`${folder}/ended`])}"/$start.\${SLURM_RESTART_COUNT:-0}"`;
  return `#!/bin/sh
${options.map((option) => `#SBATCH ${optionQuoted(option)}`).join('\n')}

# ${oneLine(request.why)}
# A controller that lost its last seconds gives the same number again: this names one start of the job.
start="$SLURM_JOB_ID-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')"
${startedAgain(command, ended)}`;
}

/** Options that say the same in another way; Slurm refuses some of them beside ours. */
const saysMemory = /^(--mem(-per-(cpu|gpu))?|--exclusive)(=|$)/;
const saysProcessors =
  /^(-c|-n|-N|--cpus-per-(task|gpu)(=|$)|--ntasks|--nodes(=|$)|--exclusive(=|$)|--mincpus(=|$))/;

/** The user's own settings of the host stay. */
function hostOptions(
  { memoryMebibytes: memory, cpus = 'default' }: SlurmRequest,
  options: readonly string[],
): readonly string[] {
  const isSaid = (pattern: RegExp) => options.some((option) => pattern.test(option));
  return [
    ...(memory === 'default' || isSaid(saysMemory) ? [] : [`--mem=${memory}M`]),
    ...(cpus === 'default' || isSaid(saysProcessors) ? [] : [`--cpus-per-task=${cpus}`]),
  ];
}

/** For a line that sbatch reads: it knows quotes and backslashes. */
function optionQuoted(option: string): string {
  const plain = oneLine(option);
  return /^[\w./:=@%+,[\]-]+$/.test(plain)
    ? plain
    : `"${plain.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

function oneLine(text: string): string {
  return text.replaceAll(/[\r\n]+/g, ' ');
}
