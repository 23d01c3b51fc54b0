import { isKnown } from '../../units/known.js';
import type { ClusterState } from '../cluster.js';
import type { RayAttempt, RayEnd } from './job-folder.js';
import { isLost, isOverdue, type RayJob } from './ray-jobs.js';

/** What is known of the last attempt of a job. */
export interface AttemptFacts {
  readonly attempt: RayAttempt;
  readonly end: RayEnd | undefined;
  /** Undefined where Ray does not know it. */
  readonly job: RayJob | undefined;
  readonly isCancelled: boolean;
  /** A node said a moment ago that it runs the job. */
  readonly mayRun: boolean;
  /** Of Ray, now. */
  readonly session: string;
}

/** Where it stands, and what is to be done about it. */
export interface Standing {
  readonly state: ClusterState;
  readonly why: string;
  /**
   * `send`: it was decided and never sent; `again`: Ray lost it; `keep`: Ray alone knows how it ended,
   * and may forget it.
   */
  readonly todo: 'nothing' | 'send' | 'again' | 'keep';
}

/** After so many losses something else is wrong. */
export const maxRestarts = 20;

/** Where the last attempt of a job stands. Only what surely runs nowhere is submitted again. */
export function standingOf(facts: AttemptFacts): Standing {
  const { end, job, isCancelled } = facts;
  if (end !== undefined) return ended(end, isCancelled);
  if (job === undefined) return isCancelled ? is('cancelled') : unseen(facts);
  const { status, message } = job;
  if (status === 'PENDING') return isCancelled ? is('cancelled') : is('waiting', message);
  if (status === 'RUNNING') return is('running');
  if (status === 'SUCCEEDED') return is('succeeded', '', 'keep');
  if (status === 'STOPPED') return is('cancelled', '', 'keep');
  if (status !== 'FAILED') return is('unknown', `Ray: ${status}`);
  if (!isLost(job)) return is('failed', `Ray: ${message}`, 'keep');
  return isCancelled ? is('cancelled', '', 'keep') : lost(facts, job);
}

function lost({ mayRun, attempt }: AttemptFacts, job: RayJob): Standing {
  const why = `Ray gave it up (${job.errorType || job.message})`;
  if (mayRun) return is('running', `${why}; its node runs it, or was heard a minute ago`);
  if (attempt.restart >= maxRestarts && !isOverdue(job)) return is('failed', why, 'keep');
  return is('waiting', `${why}: submitted again`, 'again');
}

function unseen({ attempt, mayRun, session }: AttemptFacts): Standing {
  if (!isKnown(attempt.session)) {
    if (attempt.number === 1 && attempt.restart === 0) {
      return is('unknown', 'the answer of Ray was never seen');
    }
    if (mayRun) return is('running', 'out of memory: Ray is asked for more');
    return is('waiting', '', 'send');
  }
  if (attempt.session === session) {
    return is('unknown', 'Ray no longer knows it, and it left no result');
  }
  if (mayRun)
    return is('running', "Ray's head was restarted; its node reported within the last minute");
  return is('waiting', "Ray's head was restarted: submitted again", 'again');
}

function ended(end: RayEnd, isCancelled: boolean): Standing {
  if (end.outcome === 'succeeded') return is('succeeded');
  if (isCancelled || end.outcome === 'cancelled') return is('cancelled');
  const by = end.rayState === '' ? '' : ` (Ray: ${end.rayState})`;
  const code = isKnown(end.exitCode) ? `exit code ${end.exitCode}` : 'exit code unknown';
  return is('failed', `${end.outOfMemory ? 'out of memory' : code}${by}`);
}

function is(state: ClusterState, why = '', todo: Standing['todo'] = 'nothing'): Standing {
  return { state, why, todo };
}
