import type { Known } from '../../units/known.js';
import { objectIn, objectsIn, textIn } from '../json-values.js';

/** A job as Ray has it. */
export interface RayJob {
  readonly id: string;
  /** In Ray's own word: PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED. */
  readonly status: string;
  readonly message: string;
  /** In Ray's own word, such as JOB_SUPERVISOR_ACTOR_DIED; empty where it gives none. */
  readonly errorType: string;
  readonly exitCode: Known<number>;
  readonly nodeId: string;
}

/** Ray puts the end of the log into it. */
const maxMessage = 400;

/** The jobs in what Ray lists. */
export function rayJobsIn(answer: unknown): readonly RayJob[] {
  return objectsIn(answer).flatMap((row) => rayJobIn(row) ?? []);
}

/** A job of Ray; undefined where it is none that was submitted. */
export function rayJobIn(answer: unknown): RayJob | undefined {
  const row = objectIn(answer);
  const id = textIn(row['submission_id']);
  const exitCode = row['driver_exit_code'];
  if (id === '') return undefined;
  return {
    id,
    status: textIn(row['status']),
    message: (textIn(row['message']).split('\n')[0] ?? '').slice(0, maxMessage),
    errorType: textIn(row['error_type']),
    exitCode: Number.isSafeInteger(exitCode) ? Number(exitCode) : 'unknown',
    nodeId: textIn(row['driver_node_id']),
  };
}

/** The program itself, or what it was started with, is why it failed. */
const ownFailures =
  /^(JOB_ENTRYPOINT_COMMAND_ERROR|JOB_ENTRYPOINT_COMMAND_START_ERROR|RUNTIME_ENV_SETUP_FAILURE|JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE)$/;

/** As a shell or Ray says that a process was killed. */
const killed: ReadonlySet<Known<number>> = new Set([-9, 137]);

/** Ray gave the job up, and not because of the program: its process, its node or its time to wait. */
export function isLost({ status, errorType, exitCode }: RayJob): boolean {
  if (status !== 'FAILED') return false;
  if (killed.has(exitCode)) return true;
  // Versions that name no kind of error leave the exit code out where no program ended.
  return errorType === '' ? exitCode === 'unknown' : !ownFailures.test(errorType);
}

/** It waited longer than Ray lets jobs wait: that is no fault of the job. */
export function isOverdue({ errorType }: RayJob): boolean {
  return errorType === 'JOB_SUPERVISOR_ACTOR_START_TIMEOUT';
}
