import { fetchJobs, type JobList } from './client.js';
import type { JobState, JobSummary } from './types.js';

/** The page lists no more: a longer list is searched with the command line. */
export const jobsListed = 10_000;
/** A page of the list: small enough that the first rows are there at once. */
const pageJobs = 1000;
const firstEnded = 100;

const active: readonly JobState[] = ['running', 'waiting'];
const ended: readonly JobState[] = ['succeeded', 'failed', 'cancelled', 'refused', 'expired'];

/** What is shown at once: what runs and waits, and a few that ended. */
export async function firstJobs(): Promise<JobList> {
  const [now, before] = await Promise.all([
    fetchJobs({ states: active, limit: pageJobs, order: 'oldest' }),
    fetchJobs({ states: ended, limit: firstEnded, order: 'newest' }),
  ]);
  return { jobs: [...now.jobs, ...before.jobs], counts: now.counts };
}

/** The rest of the list, page by page; `add` answers false to stop. */
export async function restOfJobs(
  first: readonly JobSummary[],
  add: (jobs: readonly JobSummary[]) => boolean,
): Promise<void> {
  let listed = first.length;
  const lists = [
    { states: active, order: 'oldest', has: first.filter(({ endedAt }) => endedAt === null) },
    { states: ended, order: 'newest', has: first.filter(({ endedAt }) => endedAt !== null) },
  ] as const;
  for (const { states, order, has } of lists) {
    let after = has.at(-1)?.id;
    const whole = order === 'oldest' ? pageJobs : firstEnded;
    let more = has.length >= whole;
    while (more && listed < jobsListed) {
      const limit = Math.min(pageJobs, jobsListed - listed);
      const { jobs } = await fetchJobs({ states, after, limit, order });
      listed += jobs.length;
      after = jobs.at(-1)?.id;
      more = jobs.length > 0;
      if (!add(jobs)) return;
    }
  }
}
