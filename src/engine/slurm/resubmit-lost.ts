import { isKnown, type Known } from '../../units/known.js';
import type { ClusterState } from '../cluster.js';
import type { Task } from '../job-folder.js';
import type { SlurmCommand } from './commands.js';
import { type SlurmAttempt, type SlurmJobFolder, type SlurmOrder, silentMs } from './job-folder.js';
import { isRefusedLaunch, type SlurmJob } from './job-states.js';
import { arrayTasks } from './request.js';
import { type AttemptParts, commentOf, submitAttempt, successor } from './submit-attempt.js';

/** Known facts about a job that may be lost. */
interface Suspect {
  readonly folder: SlurmJobFolder;
  readonly order: SlurmOrder;
  readonly slurm: readonly SlurmJob[];
  /** The same, of this moment. */
  readonly look: () => Promise<readonly SlurmJob[]>;
  readonly controller: () => Promise<SlurmController>;
  readonly nowMs: number;
}

/** An attempt that Slurm does not have, and that no node saw end. */
interface Missing {
  readonly task: Task;
  readonly attempt: SlurmAttempt;
  /** Those that it is for. */
  readonly tasks: readonly Task[];
  readonly wasRefused: boolean;
}

/** The state of a task that Slurm does not report. */
interface Standing {
  readonly state: ClusterState;
  readonly why: string;
}

/** The process that began to submit it again has done so by then, or died. */
const claimMs = 60_000;
/** A larger request that was decided so long ago and never submitted is not what anybody waits for. */
const decidedMs = 86_400_000;
/** After so many launches that nodes refused something else is wrong. */
const maxLosses = 20;

/**
 * Submits again what Slurm's controller accepted and lost: it runs nowhere and Slurm does not have it.
 * Where it had started, the node has killed it, as the new controller does not know it. The same for
 * the attempt after out-of-memory that a node decided and could not submit before it was killed.
 * Answers where each of these stands.
 */
export async function resubmitLost(
  suspect: Suspect,
  run: SlurmCommand,
): Promise<ReadonlyMap<Task, Standing>> {
  const standings = new Map<Task, Standing>();
  if (suspect.folder.isCancelled) return standings;
  for (const one of missing(suspect)) {
    if (!(await isDue(suspect, one))) continue;
    const standing = await submittedAgain(suspect, one, run);
    for (const task of one.tasks) standings.set(task, standing);
  }
  return standings;
}

/** Whether a row of Slurm says that an attempt failed which is to be submitted again. */
export function isToBeRepeated(job: SlurmJob, { formerIds = [] }: SlurmAttempt): boolean {
  return isRefusedLaunch(job) && formerIds.length < maxLosses;
}

function missing({ folder, order, slurm }: Suspect): readonly Missing[] {
  const first = folder.attempt('all', 1);
  // `submit` failed with an error: the person does not expect this job to run.
  if (first === undefined || !isKnown(first.slurmId)) return [];
  const open = (arrayTasks(order.sbatchOptions) ?? ['all' as const]).flatMap((task) => {
    const attempt = folder.attempts(task).at(-1);
    const isOpen = attempt !== undefined && folder.end(task, attempt.number) === undefined;
    return isOpen ? [{ task, attempt, tasks: [task] }] : [];
  });
  // The first one is one job for all tasks of an array.
  const ofFirst = open.filter(({ attempt }) => attempt.number === 1).map(({ task }) => task);
  const all = [
    ...(ofFirst.length === 0 ? [] : [{ task: 'all' as const, attempt: first, tasks: ofFirst }]),
    ...open.filter(({ attempt }) => attempt.number > 1),
  ];
  return all.flatMap((one) => {
    const rows = rowsOf(folder, one, slurm);
    const wasRefused = rows.some((job) => isToBeRepeated(job, one.attempt));
    return rows.every(isRefusedLaunch) ? [{ ...one, wasRefused }] : [];
  });
}

function rowsOf(
  folder: SlurmJobFolder,
  { task, attempt }: Pick<Missing, 'task' | 'attempt'>,
  slurm: readonly SlurmJob[],
): readonly SlurmJob[] {
  const comment = commentOf(folder.key, task, attempt.number);
  return slurm.filter((job) => job.comment === comment);
}

async function isDue(
  { order, controller, nowMs }: Suspect,
  { attempt, wasRefused }: Missing,
): Promise<boolean> {
  if (wasRefused) return true;
  const submittedMs = Date.parse(attempt.submittedAt ?? order.submittedAt);
  if (!isKnown(attempt.slurmId)) return nowMs - submittedMs < decidedMs;
  return wasLost(await controller(), submittedMs, nowMs);
}

async function submittedAgain(
  suspect: Suspect,
  one: Missing,
  run: SlurmCommand,
): Promise<Standing> {
  const { folder, nowMs } = suspect;
  const { task, attempt } = one;
  // It may have been submitted after the first look.
  const live = rowsOf(folder, one, await suspect.look()).find((job) => !isRefusedLaunch(job));
  if (live !== undefined) return { state: live.state, why: live.slurmReason };
  // A node may have begun it meanwhile.
  if (mayRun(folder, task, attempt.number)) return stillHeard;
  const former = attempt.formerIds ?? [];
  if (folder.claimLost(`${task}.${attempt.number}.${former.length}`, nowMs - claimMs)) {
    const formerIds = isKnown(attempt.slurmId) ? [...former, attempt.slurmId] : former;
    const again: SlurmAttempt = { ...attempt, slurmId: 'unknown', formerIds };
    await submitAttempt(partsOf(suspect, one, again), run);
  }
  return again;
}

const stillHeard = {
  state: 'running',
  why: 'Slurm lost it; a node ran it within the last minute',
} as const;
const again = { state: 'waiting', why: 'Slurm lost it: submitted again' } as const;

function partsOf({ folder, order }: Suspect, one: Missing, attempt: SlurmAttempt): AttemptParts {
  if (attempt.number > 1) return successor(folder, order, one.task, attempt, []);
  const isArray = arrayTasks(order.sbatchOptions) !== undefined;
  // Of an array only what has not ended.
  const options = isArray ? [`--array=${one.tasks.join()}`] : [];
  return { folder, order, task: 'all', attempt, options };
}

/** Of a successor, the attempt before counts, too: its node decides and submits. */
function mayRun(folder: SlurmJobFolder, task: Task, number: number): boolean {
  if (number === 1) return folder.mayRun(silentMs);
  return [number - 1, number].some((one) => folder.mayBeRunning(task, one, silentMs));
}

/** A controller's description of itself. */
export interface SlurmController {
  readonly bootMs: Known<number>;
  /** How long it keeps a job after its end. */
  readonly minJobAgeMs: number;
}

/** A controller writes its state every few seconds; what it accepted since is lost when it is killed. */
const unsavedMs = 60_000;
/** Clocks of a cluster differ a little. */
const clockMs = 5000;
/** Slurm's own default. */
const usualAgeSeconds = 300;

export async function readController(run: SlurmCommand): Promise<SlurmController> {
  const text = await run('scontrol', ['show', 'config']);
  const bootMs = Date.parse(/^BOOT_TIME\s*=\s*(\S+)/m.exec(text)?.[1] ?? '');
  const seconds = Number(/^MinJobAge\s*=\s*(\d+)/m.exec(text)?.[1] ?? usualAgeSeconds);
  return {
    bootMs: Number.isNaN(bootMs) ? 'unknown' : bootMs,
    // With 0 it keeps all of them, and only as long as its state is not removed.
    minJobAgeMs: (seconds === 0 ? usualAgeSeconds : seconds) * 1000,
  };
}

/**
 * Whether a controller lost a job that it does not know: it keeps each one for a while after its end, so
 * that one that is younger cannot be gone otherwise; and it was started right after it took the job. One
 * that somebody cancelled, or that ended long ago, is none of these.
 */
export function wasLost(
  { bootMs, minJobAgeMs }: SlurmController,
  submittedMs: number,
  nowMs: number,
): boolean {
  if (nowMs - submittedMs < minJobAgeMs - clockMs) return true;
  return isKnown(bootMs) && bootMs >= submittedMs - clockMs && bootMs <= submittedMs + unsavedMs;
}
