import { Failure } from '../../failure.js';
import type { JobSummary } from '../../jobs/daemon/types.js';
import type { Identity } from './identity.js';

/** What an operation needs: to see the state, or to use the machine. */
export type Permission = 'read' | 'work';

/** What is asked of one job. */
export type JobAction =
  | 'cancel it'
  | 'change its limit'
  | 'read its log'
  | 'read its request'
  | 'read its report'
  | 'read its snapshot';

export function requirePermission({ name, role }: Identity, needed: Permission): void {
  if (needed === 'read' || role !== 'viewer') return;
  throw new Failure({
    kind: 'input',
    code: 'role-not-allowed',
    fact: `${name} is a viewer: viewers see devices and jobs, and nothing else.`,
    next: `An admin can change that on the machine of the server: plimsoll users change ${name} --role user`,
  });
}

export function ownsJob({ name, role }: Identity, { owner }: Pick<JobSummary, 'owner'>): boolean {
  return role === 'admin' || (role === 'user' && owner === name);
}

export function requireOwn(
  identity: Identity,
  job: Pick<JobSummary, 'id' | 'owner'>,
  action: JobAction,
): void {
  if (ownsJob(identity, job)) return;
  throw new Failure({
    kind: 'input',
    code: 'not-your-job',
    fact: `Job ${job.id} belongs to ${job.owner}: ${identity.name} may not ${action}.`,
    next: `Ask ${job.owner}, or an admin.`,
  });
}

/**
 * A job as one person may see it. Others learn where it stands and what memory it takes, but not what
 * comes out of the program: the text of its errors, what it printed, the commands of its processes, and
 * its snapshots.
 */
export function asSeenBy<J extends JobSummary>(identity: Identity, job: J): J {
  return ownsJob(identity, job) ? job : withoutOutput(job);
}

export function withoutOutput<J extends JobSummary>(job: J): J {
  if (!hasOutput(job)) return job;
  const attempts = job.attempts.map((attempt) => {
    const { holders: _, ...others } = attempt;
    const { outOfMemory } = attempt;
    return {
      ...others,
      snapshot: null,
      lastLines: [],
      outOfMemory: outOfMemory && { ...outOfMemory, message: '' },
    };
  });
  return { ...job, attempts };
}

/** Whether there is anything that only its owner may see. */
export function hasOutput({ attempts }: Pick<JobSummary, 'attempts'>): boolean {
  return attempts.some(
    ({ snapshot, outOfMemory, holders, lastLines = [] }) =>
      snapshot !== null ||
      holders !== undefined ||
      (outOfMemory?.message ?? '') !== '' ||
      lastLines.length > 0,
  );
}
