import type { JobView } from '../../jobs/daemon/types.js';
import { hasEnded, type JobState } from '../../jobs/types.js';
import { jobName, jobStandsWords } from '../../report/text/job-text.js';
import { TerminalFilter } from '../../report/text/terminal-filter.js';
import { cleanText } from '../../report/text/text-width.js';
import { systemClock } from '../../time/clock.js';
import { isKnown } from '../../units/known.js';
import { type CliIo, type Output, textStyle } from '../io.js';
import { openLiveProgress } from '../screen/progress.js';
import type { Stop } from '../stop.js';
import { followLog } from './follow-log.js';
import type { ServerClient } from './server-client.js';

export interface WatchJobOptions {
  readonly client: ServerClient;
  readonly stop: Stop;
  readonly io: CliIo;
  /** Show what it prints. */
  readonly follow: boolean;
  /** stdout is for the one document; what the job prints goes to stderr. */
  readonly json: boolean;
  /** Bytes of its log that were shown already. */
  readonly from?: number | undefined;
}

/**
 * Waits for the end of a job, tells its changes, and answers it as it ended; undefined when the
 * person left, who is told then that the job goes on.
 */
export async function watchJob(
  job: Pick<JobView, 'id' | 'name' | 'state' | 'waiting'>,
  { client, stop, io, follow, json, from = 0 }: WatchJobOptions,
): Promise<JobView | undefined> {
  const notify = (line: string) => io.stderr.write(`plimsoll: ${line}\n`);
  const output = json ? io.stderr : io.stdout;
  const estimate = openLiveProgress(io.stderr, textStyle(io).unicode);
  let { state } = job;
  let isEstimating = progressOf(job) !== undefined;
  const ended = await followLog({
    client,
    id: job.id,
    from,
    write: follow ? writing(output, stop.signal) : undefined,
    onJob(now) {
      const progress = progressOf(now);
      if (progress === undefined) estimate.end();
      else if (io.stderr.isTerminal) estimate.show(cleanText(progress.why), progress.share);
      const isNew = now.state !== state || (progress === undefined && isEstimating);
      if (isNew && !hasEnded(now.state)) notify(jobStandsWords(now, systemClock.epochMs()));
      ({ state } = now);
      isEstimating = progress !== undefined;
    },
    notify,
    signal: stop.signal,
  }).finally(() => estimate.end());
  if (ended === undefined && stop.interruptedBy !== undefined) {
    notify(
      `${jobName(job)} goes on. "plimsoll logs -f ${job.id}" follows it, "plimsoll cancel ${job.id}" ends it.`,
    );
  }
  return ended;
}

/** How far the estimate is of a job that waits for one. */
function progressOf({ waiting }: Pick<JobView, 'waiting'>) {
  if (waiting?.whyDetails.code !== 'estimating') return undefined;
  const { share } = waiting.whyDetails;
  return { why: waiting.why, share: isKnown(share) ? share : undefined };
}

/**
 * Never more than a reader takes: a log may be larger than our memory. A terminal gets no sequences
 * that could harm its owner, who may not be the owner of the job; a file gets all as it is.
 */
export function writing(output: Output, signal: AbortSignal): (text: string) => Promise<void> {
  const filter = output.isTerminal ? new TerminalFilter() : undefined;
  return (text) => {
    output.write(filter === undefined ? text : filter.take(text));
    return output.drained(signal);
  };
}

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
