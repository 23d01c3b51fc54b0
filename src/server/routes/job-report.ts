import type { JobView } from '../../jobs/daemon/types.js';
import type { JobState } from '../../jobs/types.js';
import type { Outcome, RunReport } from '../../run/types.js';

const outcomes: Readonly<Partial<Record<JobState, Outcome>>> = {
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'interrupted',
};

/**
 * The report of a job that ran, as `plimsoll run` writes it; undefined while it runs, and where it
 * never did.
 *
 * @example
 * const report = jobReport(daemon.job('7'), version);
 * if (report !== undefined) await writeFile('job-7.html', renderRunHtml(report));
 */
export function jobReport(job: JobView, version: string): RunReport | undefined {
  const outcome = outcomes[job.state];
  const { startedAt, endedAt, attempts } = job;
  if (outcome === undefined || startedAt === null || endedAt === null) return undefined;
  return {
    schema: 1,
    tool: { name: 'plimsoll', version },
    id: `job ${job.id}, ${job.name}`,
    command: job.command,
    outcome,
    exitCode: attempts.at(-1)?.exitCode ?? 'unknown',
    startedAt,
    endedAt,
    attempts,
    notes: [job.reason, job.need.why].filter((note) => note !== ''),
  };
}
