import { hostname } from 'node:os';
import { Failure } from '../../failure.js';
import { isKnown } from '../../units/known.js';
import type { Task } from '../job-folder.js';
import { heedSignals, type NodeEdges, readReport, runAttempt } from '../node/run-attempt.js';
import { type SlurmCommand, slurmDocument } from './commands.js';
import { awaitTurn, isOver, type SlurmAttempt, type SlurmJobFolder } from './job-folder.js';
import { readJobs } from './job-states.js';
import { requestIn, type SlurmCluster } from './open-cluster.js';
import { attemptOf, submitAttempt, successor } from './submit-attempt.js';

/** As a shell says that a program was asked to end. */
const terminated = 143;
/** How often a controller that does not answer is asked, and how long it is waited in between. */
const maxAsked = 10;
const askMs = 1000;

/** The parts that the node's side of a job may use. */
export interface NodeParts extends NodeEdges {
  readonly folder: SlurmJobFolder;
  readonly number: number;
  /** As the script named this start; scripts of earlier versions do not. */
  readonly start: string | undefined;
  readonly run: SlurmCommand;
  /** Reads the cluster's offer for a job with these options of sbatch. */
  readonly cluster: (options: readonly string[]) => Promise<SlurmCluster>;
}

/**
 * Runs one attempt of a job in an allocation of Slurm. Where it ran out of memory for good, its
 * successor is submitted, which begins when this job has ended.
 */
export async function runOnNode(parts: NodeParts): Promise<number> {
  const { folder, environment, number, run } = parts;
  const slurmId = environment['SLURM_JOB_ID'] ?? '';
  const index = environment['SLURM_ARRAY_TASK_ID'];
  const task: Task = index === undefined ? 'all' : Number(index);
  const order = folder.order();
  const attempt = folder.attempt(number === 1 ? 'all' : task, number);
  if (order === undefined || attempt === undefined || slurmId === '') throw notOurs(folder.path);
  const { limitBytes, contextBytes, gres } = attempt.request;
  const restart = Number(environment['SLURM_RESTART_COUNT'] ?? 0);
  const clusterId = parts.start ?? slurmId;
  const refused = await refusedTurn(parts, task, { slurmId, clusterId, restart });
  if (refused !== undefined) {
    folder.markEnded(clusterId, restart);
    return refused;
  }
  const nodes = Number(environment['SLURM_JOB_NUM_NODES'] ?? 1);
  return runAttempt({
    ...parts,
    // Of the work on the other nodes nothing is measured here.
    learn: nodes > 1 ? () => 'unknown' : parts.learn,
    order,
    task,
    clusterId,
    restart,
    node: environment['SLURMD_NODENAME'] ?? hostname(),
    limit: { limitBytes, contextBytes, isOfHost: gres === 'none' },
    report: earlierReport(folder, task, number),
    isOurs: () => isOurs(folder.key, slurmId, run),
    endWith: (end) => ({ ...end, slurmState: '', of: { slurmId, restart } }),
    async submitNext(next, bytes) {
      const cluster = await parts.cluster(order.sbatchOptions);
      const request = requestIn(cluster, { bytes, gpus: order.gpus });
      const larger: SlurmAttempt = {
        schema: 1,
        number: next,
        request,
        slurmId: 'unknown',
        submittedAt: new Date().toISOString(),
      };
      // Another start of this job may have decided already; its decision stands.
      folder.claimAttempt(task, larger);
      const decided = folder.attempt(task, next) ?? larger;
      // Never two at the same time.
      const after = [`--dependency=afterany:${slurmId}`];
      const submitted = await submitAttempt(successor(folder, order, task, decided, after), run);
      if (folder.isCancelled && isKnown(submitted.slurmId))
        await run('scancel', [submitted.slurmId]);
      return `Submitted again as job ${submitted.slurmId} with ${decided.request.why}`;
    },
  });
}

/** The exit code of a start that must not run the program; undefined where it is its turn. */
async function refusedTurn(
  { folder, number, notify }: NodeParts,
  task: Task,
  own: { readonly slurmId: string; readonly clusterId: string; readonly restart: number },
): Promise<number | undefined> {
  const signals = heedSignals();
  try {
    const isAskedToEnd = () => signals.wasAsked;
    if (!(await awaitTurn({ folder, task, number, ...own, isAskedToEnd }))) return terminated;
  } finally {
    signals.release();
  }
  if (folder.isCancelled) return terminated;
  const end = folder.end(task, number);
  if (end === undefined || !isOver(end, own)) return undefined;
  notify(
    `plimsoll: Slurm started job ${own.slurmId} again, but it has ended already (${end.outcome}): nothing is run. To run it once more, submit it again.`,
  );
  return isKnown(end.exitCode) ? end.exitCode : 1;
}

/** Of a start before this one that ended well and was killed before it could say so. */
function earlierReport(folder: SlurmJobFolder, task: Task, number: number): string | undefined {
  return folder
    .turns(task, number)
    .map(({ start }) => folder.reportOf(start))
    .find((path) => readReport(path)?.outcome === 'succeeded');
}

/**
 * Whether Slurm has this job as running. One that its controller lost is killed on its node, the
 * program perhaps a moment before us: then the program did not fail.
 */
async function isOurs(key: string, slurmId: string, run: SlurmCommand): Promise<boolean> {
  for (let tries = 0; tries < maxAsked; tries++) {
    try {
      const text = await run('squeue', ['--json', '--states=all']);
      const job = readJobs(slurmDocument(text, 'squeue')).find(({ id }) => id === slurmId);
      return job?.slurmState.toUpperCase() === 'RUNNING' && attemptOf(key, job) !== undefined;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, askMs));
    }
  }
  return true;
}

function notOurs(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-in-slurm',
    fact: `This command is for jobs of Slurm that plimsoll submitted; ${path} is not one, or SLURM_JOB_ID is not set.`,
    next: 'Submit jobs with: plimsoll submit --engine slurm -- python train.py',
  });
}

/** Variables of a job that must not reach the next one: Slurm sets them anew. */
const ofThisJob =
  /^(SLURM_|SLURMD_|SBATCH_|SRUN_|PMI|CUDA_VISIBLE_DEVICES$|ROCR_VISIBLE_DEVICES$|GPU_DEVICE_ORDINAL$|ZE_AFFINITY_MASK$|TMPDIR$)/;

/** The environment in which a job submits its successor. */
export function environmentOfSuccessor(
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name === 'SLURM_CONF' || !ofThisJob.test(name)),
  );
}
