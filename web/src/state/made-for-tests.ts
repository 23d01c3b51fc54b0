import { madeJob as waitingJob } from '../../../src/jobs/daemon/made-for-tests.js';
import type { JobSummary, JobView } from '../api/types.js';

export { madeAttempt, madeDevice, madeWaiting } from '../../../src/jobs/daemon/made-for-tests.js';

/** Without a place in the queue: most tests of the page are about other jobs. */
export function madeJob(parts: Partial<JobView> & { readonly id: string }): JobView {
  return waitingJob({ waiting: null, ...parts });
}

export function asMap(jobs: readonly JobSummary[]): ReadonlyMap<string, JobSummary> {
  return new Map(jobs.map((job) => [job.id, job]));
}
