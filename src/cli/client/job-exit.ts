import type { JobState } from '../../jobs/types.js';

/** What a command that waited for a job ends with. */
const exitCodes: Readonly<Record<JobState, number>> = {
  waiting: 0,
  running: 0,
  succeeded: 0,
  /** It never ran: the answer to what was asked is no. */
  refused: 1,
  expired: 1,
  failed: 4,
  cancelled: 4,
};

export function jobExitCode(state: JobState): number {
  return exitCodes[state];
}
