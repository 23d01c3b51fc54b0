import { hostname } from 'node:os';
import { Failure } from '../../failure.js';
import { isKnown } from '../../units/known.js';
import type { Task } from '../job-folder.js';
import { type NodeEdges, runAttempt } from '../node/run-attempt.js';
import { withoutArray } from './array-tasks.js';
import type { SlurmCommand } from './commands.js';
import type { SlurmAttempt, SlurmJobFolder } from './job-folder.js';
import type { SlurmCluster } from './open-cluster.js';
import { slurmRequest } from './request.js';
import { submitAttempt } from './submit-attempt.js';

/** What the node's side of a job may touch. */
export interface NodeParts extends NodeEdges {
  readonly folder: SlurmJobFolder;
  readonly number: number;
  readonly run: SlurmCommand;
  readonly cluster: () => Promise<SlurmCluster>;
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
  return runAttempt({
    ...parts,
    order,
    task,
    clusterId: slurmId,
    restart: Number(environment['SLURM_RESTART_COUNT'] ?? 0),
    node: environment['SLURMD_NODENAME'] ?? hostname(),
    limit: { limitBytes, contextBytes, isOfHost: gres === 'none' },
    endWith: (end) => ({ ...end, slurmState: '' }),
    async submitNext(next, bytes) {
      const { offers, defaultPartitions } = await parts.cluster();
      const request = slurmRequest({ bytes, gpus: order.gpus }, offers, defaultPartitions);
      const larger: SlurmAttempt = { schema: 1, number: next, request, slurmId: 'unknown' };
      // Another start of this job may have decided already; its decision stands.
      folder.claimAttempt(task, larger);
      const decided = folder.attempt(task, next) ?? larger;
      const options = [
        // Never two at the same time.
        `--dependency=afterany:${slurmId}`,
        ...(task === 'all' ? [] : [`--array=${task}`]),
      ];
      const own = { ...order, sbatchOptions: withoutArray(order.sbatchOptions) };
      const submitted = await submitAttempt(
        { folder, order: own, task, attempt: decided, options },
        run,
      );
      if (folder.isCancelled && isKnown(submitted.slurmId))
        await run('scancel', [submitted.slurmId]);
      return `Submitted again as job ${submitted.slurmId} with ${decided.request.why}`;
    },
  });
}

function notOurs(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-in-slurm',
    fact: `This command is for jobs of Slurm that plimsoll submitted; ${path} is not one, or SLURM_JOB_ID is not set.`,
    next: 'Submit jobs with: plimsoll submit --engine slurm -- python train.py',
  });
}
