import { isKnown } from '../../units/known.js';
import {
  type ClusterAttempt,
  type ClusterJob,
  type ClusterState,
  clusterStates,
  hasClusterEnded,
} from '../cluster.js';
import type { Task } from '../job-folder.js';
import { arrayTasks } from './array-tasks.js';
import type { SlurmAttempt, SlurmEnd, SlurmJobFolder, SlurmOrder } from './job-folder.js';
import { reasonWords, type SlurmJob } from './job-states.js';
import { commentOf } from './submit-attempt.js';

/** Where one task stands: its last attempt says. */
interface TaskView {
  readonly state: ClusterState;
  readonly why: string;
  readonly nodes: string;
  readonly attempts: readonly ClusterAttempt[];
}

/** Where tasks stand of which Slurm does not tell. */
export type Standings = ReadonlyMap<Task, Pick<TaskView, 'state' | 'why'>>;

/** A job as its files and Slurm tell together; files win, as Slurm forgets after some minutes. */
export function jobView(
  folder: SlurmJobFolder,
  order: SlurmOrder,
  slurm: readonly SlurmJob[],
  lost: Standings,
): ClusterJob {
  const tasks = arrayTasks(order.sbatchOptions);
  const views = (tasks ?? ['all' as const]).map((task) =>
    taskView(folder, task, slurm, lost.get(task)),
  );
  const [only] = views;
  const state = stateOf(views.map((view) => view.state));
  const shown = views.find((view) => view.state === state) ?? only;
  const first = folder.attempt('all', 1);
  return {
    engine: 'slurm',
    id: nameOf(first) ?? folder.key,
    name: order.name,
    command: order.command,
    state,
    why: shown?.why ?? '',
    gpus: order.gpus,
    needBytes: order.needBytes,
    basis: order.basis,
    nodes: [...new Set(views.map(({ nodes }) => nodes).filter((nodes) => nodes !== ''))].join(),
    submittedAt: order.submittedAt,
    attempts:
      (tasks === undefined ? only : views.findLast(({ attempts }) => attempts.length > 1))
        ?.attempts ??
      only?.attempts ??
      [],
    notes: [
      ...((folder.attempts('all').at(-1) ?? first)?.request.notes ?? []),
      ...lostNotes(first),
    ],
    tasks: tasks === undefined ? null : counts(views.map((view) => view.state)),
  };
}

/** What a person calls a job, whatever number Slurm gave it after it was lost. */
export function nameOf(first: SlurmAttempt | undefined): string | undefined {
  const name = first?.jobName ?? first?.formerIds?.[0] ?? first?.slurmId;
  return name === undefined || !isKnown(name) ? undefined : name;
}

function lostNotes(first: SlurmAttempt | undefined): readonly string[] {
  const former = first?.formerIds ?? [];
  if (first === undefined || former.length === 0) return [];
  const as = isKnown(first.slurmId) ? ` as job ${first.slurmId}` : '';
  return [`Slurm's controller lost job ${former.join(' and job ')}: it was submitted again${as}.`];
}

function taskView(
  folder: SlurmJobFolder,
  task: Task,
  slurm: readonly SlurmJob[],
  lost: Pick<TaskView, 'state' | 'why'> | undefined,
): TaskView {
  const attempts = folder.attempts(task);
  const ends = attempts.map(({ number }) => folder.end(task, number));
  const last = attempts.at(-1);
  const end = ends.at(-1);
  const known = last === undefined ? undefined : slurmJobOf(folder.key, last, task, slurm);
  const before = attempts.at(-2);
  const isDeciding =
    last?.slurmId === 'unknown' &&
    before !== undefined &&
    slurmJobOf(folder.key, before, task, slurm)?.state === 'running';
  const { state, why } =
    end !== undefined
      ? ended(end, folder.isCancelled)
      : isDeciding
        ? deciding
        : lost !== undefined && (known === undefined || hasClusterEnded(known.state))
          ? lost
          : now(last, known, folder.isCancelled);
  return {
    state,
    why,
    nodes: end?.node ?? known?.nodes ?? '',
    attempts: attempts.map((attempt, index) => attemptView(attempt, ends[index])),
  };
}

/** The attempt before still runs: it is about to submit this one. */
const deciding = { state: 'running', why: 'out of memory: Slurm is asked for more' } as const;

/** The row of an attempt in what squeue printed: by its number, or by our comment. */
export function slurmJobOf(
  key: string,
  { slurmId, number }: SlurmAttempt,
  task: Task,
  slurm: readonly SlurmJob[],
): SlurmJob | undefined {
  const comment = commentOf(key, number === 1 ? 'all' : task, number);
  // A controller that lost its last seconds gives the same numbers again: the comment decides.
  const own = slurm.filter(
    (job) =>
      job.comment === comment &&
      (!isKnown(slurmId) || job.id === slurmId || job.arrayJob === slurmId),
  );
  if (task === 'all') return own[0];
  // Tasks that wait are one row without a task of their own.
  return (
    own.find(({ arrayTask }) => arrayTask === task) ??
    own.find(({ arrayTask, state }) => !isKnown(arrayTask) && state === 'waiting') ??
    own.find(({ arrayJob }) => arrayJob === 'none')
  );
}

function ended(end: SlurmEnd, isCancelled: boolean): Pick<TaskView, 'state' | 'why'> {
  if (end.outcome === 'succeeded') return { state: 'succeeded', why: '' };
  if (isCancelled || end.outcome === 'cancelled') return { state: 'cancelled', why: '' };
  const by = end.slurmState === '' ? '' : ` (Slurm: ${end.slurmState})`;
  const code = isKnown(end.exitCode) ? `exit code ${end.exitCode}` : 'exit code unknown';
  return { state: 'failed', why: `${end.outOfMemory ? 'out of memory' : code}${by}` };
}

function now(
  attempt: SlurmAttempt | undefined,
  job: SlurmJob | undefined,
  isCancelled: boolean,
): Pick<TaskView, 'state' | 'why'> {
  if (job === undefined) {
    if (isCancelled) return { state: 'cancelled', why: '' };
    if (attempt === undefined || !isKnown(attempt.slurmId)) {
      return { state: 'unknown', why: 'the answer of sbatch was never seen' };
    }
    return {
      state: 'unknown',
      why: `Slurm no longer knows job ${attempt.slurmId}, and it left no result`,
    };
  }
  const words = reasonWords(job.slurmReason);
  const reason = [job.slurmReason, words].filter((text) => text !== '').join(': ');
  const why =
    hasClusterEnded(job.state) && job.state !== 'succeeded' ? `Slurm: ${job.slurmState}` : reason;
  return { state: job.state, why };
}

function attemptView(attempt: SlurmAttempt, end: SlurmEnd | undefined): ClusterAttempt {
  const { limitBytes, gres } = attempt.request;
  return {
    number: attempt.number,
    clusterId: attempt.slurmId,
    request: gres === 'none' ? `mem=${attempt.request.memoryMebibytes}M` : gres,
    reservedBytes: typeof limitBytes === 'number' ? limitBytes : 'unknown',
    peakBytes: end?.peakBytes ?? 'unknown',
    outOfMemory: end?.outOfMemory ?? false,
    exitCode: end?.exitCode ?? 'unknown',
  };
}

/** An array runs while one of its tasks does, and succeeded when all of them have. */
function stateOf(states: readonly ClusterState[]): ClusterState {
  const order: readonly ClusterState[] = [
    'running',
    'waiting',
    'failed',
    'unknown',
    'cancelled',
    'succeeded',
  ];
  return order.find((state) => states.includes(state)) ?? 'unknown';
}

function counts(states: readonly ClusterState[]): ClusterJob['tasks'] {
  return Object.fromEntries(
    clusterStates
      .map((state) => [state, states.filter((one) => one === state).length] as const)
      .filter(([, count]) => count > 0),
  );
}
