import { isKnown, type Known } from '../../units/known.js';
import type { ClusterState } from '../cluster.js';
import { objectIn, objectsIn, textIn } from '../job-folder.js';
import { numberIn, wordsIn } from './commands.js';

/** A job or a task of an array, as Slurm has it. */
export interface SlurmJob {
  readonly id: string;
  /** The job that all tasks of an array belong to; `none` where it is not one of them. */
  readonly arrayJob: string;
  readonly arrayTask: Known<number> | 'none';
  readonly state: ClusterState;
  /** In Slurm's own word, such as `PENDING` or `NODE_FAIL`. */
  readonly slurmState: string;
  /** In Slurm's own word, such as `Resources`; empty where it gives none. */
  readonly slurmReason: string;
  /** Slurm holds it because a node could not start it; nobody asked for that. */
  readonly isHeldAfterLaunch: boolean;
  readonly nodes: string;
  readonly comment: string;
  readonly restarts: Known<number>;
  readonly exitCode: Known<number>;
}

const states: Readonly<Record<string, ClusterState>> = {
  PENDING: 'waiting',
  CONFIGURING: 'waiting',
  REQUEUED: 'waiting',
  REQUEUE_HOLD: 'waiting',
  SPECIAL_EXIT: 'waiting',
  RESV_DEL_HOLD: 'waiting',
  RUNNING: 'running',
  COMPLETING: 'running',
  SUSPENDED: 'running',
  STOPPED: 'running',
  SIGNALING: 'running',
  STAGE_OUT: 'running',
  COMPLETED: 'succeeded',
  CANCELLED: 'cancelled',
  REVOKED: 'cancelled',
};

/** Other states of a job that failed. */
const failures =
  /^(FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|BOOT_FAIL|DEADLINE|LAUNCH_FAILED|RECONFIG_FAIL)$/;

export function clusterState(slurmState: string): ClusterState {
  const word = slurmState.toUpperCase().split(/[\s+]/)[0] ?? '';
  return states[word] ?? (failures.test(word) ? 'failed' : 'unknown');
}

/** The jobs in what `squeue --json` or `sacct --json` prints. */
export function readJobs(document: Readonly<Record<string, unknown>>): readonly SlurmJob[] {
  return objectsIn(document['jobs']).flatMap((job) => {
    const id = numberIn(job['job_id']);
    if (id === 'unknown') return [];
    const [slurmState = ''] = wordsIn(job['job_state']);
    const arrayJob = numberIn(job['array_job_id']);
    const reason = textIn(job['state_reason']);
    const exit = objectIn(job['exit_code']);
    return [
      {
        id: String(id),
        arrayJob: arrayJob === 'unknown' || arrayJob === 0 ? 'none' : String(arrayJob),
        arrayTask:
          arrayJob === 'unknown' || arrayJob === 0 ? 'none' : numberIn(job['array_task_id']),
        state: clusterState(slurmState),
        slurmState,
        slurmReason: reason === 'None' ? '' : reason,
        isHeldAfterLaunch: /launch failed/i.test(textIn(job['state_description'])),
        nodes: textIn(job['nodes']),
        comment: textIn(job['comment']),
        restarts: numberIn(job['restart_cnt']),
        exitCode: 'return_code' in exit ? numberIn(exit['return_code']) : exitCodeIn(job),
      },
    ];
  });
}

/** Slurm 22.05 writes what `wait` of the kernel answers: the code is its second byte. */
function exitCodeIn(job: Readonly<Record<string, unknown>>): Known<number> {
  const status = numberIn(job['exit_code']);
  if (!isKnown(status)) return 'unknown';
  const signal = status % 128;
  return signal === 0 ? Math.floor(status / 256) % 256 : 128 + signal;
}

/**
 * Whether Slurm gave a job up that was never begun. A node that has just killed a job, because a
 * controller with an older state did not know that it runs, refuses to start it again; Slurm then
 * writes that it failed with exit code 1. Our script never ends with 1 unless a node wrote how it
 * ended.
 */
export function isRefusedLaunch({
  slurmState,
  exitCode,
}: Pick<SlurmJob, 'slurmState' | 'exitCode'>): boolean {
  return slurmState.toUpperCase() === 'FAILED' && exitCode === 1;
}

/** Why a job waits, for somebody who does not know Slurm's words. */
const reasons: Readonly<Record<string, string>> = {
  Resources: 'waiting for GPUs, memory or processors to become free',
  Priority: 'jobs with a higher priority are ahead',
  Dependency: 'waiting for the job that it depends on',
  DependencyNeverSatisfied: 'the job that it depends on did not end as it should: cancel it',
  JobHeldUser: 'held: "scontrol release" lets it go on',
  JobHeldAdmin: 'held by an administrator',
  BeginTime: 'its start time has not come yet',
  ReqNodeNotAvail: 'the nodes that it needs are not available',
  Reservation: 'waiting for its reservation',
  PartitionDown: 'its partition is down',
  PartitionNodeLimit: 'it asks for more than its partition allows',
  PartitionTimeLimit: 'its time limit is above that of its partition',
  QOSMaxJobsPerUserLimit: 'your limit of jobs at a time is reached',
  QOSMaxGRESPerUser: 'your limit of GPUs is reached',
  AssocGrpGRES: 'the limit of GPUs of your account is reached',
  AssocMaxJobsLimit: 'your limit of jobs at a time is reached',
  JobArrayTaskLimit: 'the limit of tasks of this array at a time is reached',
  Licenses: 'waiting for a license',
};

export function reasonWords(slurmReason: string): string {
  return reasons[slurmReason] ?? '';
}
