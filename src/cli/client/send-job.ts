import { Failure } from '../../failure.js';
import type { JobRequest, JobView } from '../../jobs/daemon/types.js';
import { placeOf } from './find-server.js';
import { sleepFor } from './follow-log.js';
import { submitJob } from './job-client.js';
import { mayHaveArrived, type ServerClient, unreachableCode } from './server-client.js';

/** A server that is started anew is back within this time. */
const maxTries = 20;
const betweenMs = 500;

/**
 * Sends a job until the server says that it has it. Sent again with the same word it stays one job,
 * so a connection that broke in between doubles nothing.
 */
export async function sendJob(
  client: ServerClient,
  request: JobRequest,
  signal: AbortSignal,
  sleep: (ms: number) => Promise<void> = (ms) => sleepFor(ms, signal),
): Promise<JobView> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await submitJob(client, request);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const isAway = error.code === unreachableCode;
      // There was no server to begin with: that will not change by itself.
      const isPassing =
        error.code === 'closing' || (isAway && (tries > 1 || mayHaveArrived(error)));
      if (!isPassing) throw error;
      if (tries >= maxTries) throw mayBeThere(client, error);
    }
    await sleep(betweenMs);
  }
}

function mayBeThere({ address }: ServerClient, cause: Failure): Failure {
  return new Failure({
    kind: 'missing',
    code: unreachableCode,
    fact: `The server at ${placeOf(address)} stopped before it answered; it may have accepted the job.`,
    next: 'Run "plimsoll jobs" once the server is back to see whether it did.',
    cause,
  });
}
