import { StringDecoder } from 'node:string_decoder';
import { Failure } from '../../failure.js';
import type { JobView } from '../../jobs/daemon/types.js';
import { hasEnded } from '../../jobs/types.js';
import { placeOf } from './find-server.js';
import { readJob, readLog, type ServerClient, unreachableCode } from './server-client.js';

/** People see what is printed as it comes; twice in a second costs a server nothing. */
const lookMs = 500;

export interface FollowOptions {
  readonly client: ServerClient;
  readonly id: string;
  /** Bytes of the log that are known already. */
  readonly from: number;
  /** What the job printed, as text; left out, it is not wanted. No more is fetched until it resolves. */
  readonly write?: ((text: string) => void | Promise<void>) | undefined;
  /** Called with every look at the job. */
  readonly onJob?: ((job: JobView) => void) | undefined;
  /** Something a person should know: that the server is away, that it is back. */
  readonly notify: (line: string) => void;
  readonly signal: AbortSignal;
  readonly sleep?: ((ms: number) => Promise<void>) | undefined;
}

/**
 * Waits for the end of a job, writes what it prints meanwhile, and answers the job as it ended. A
 * server that goes away is waited for: its jobs go on, and it finds them again. Undefined when it
 * was stopped.
 */
export async function followLog(options: FollowOptions): Promise<JobView | undefined> {
  const { client, id, signal } = options;
  const sleep = options.sleep ?? ((ms) => sleepFor(ms, signal));
  const patiently = patience(options, sleep);
  const log = options.write && openLog(options, options.write, patiently);
  while (!signal.aborted) {
    // The state before the log: what an ended job printed is whole then.
    const job = await patiently(() => readJob(client, id));
    if (job === undefined) break;
    options.onJob?.(job);
    await log?.catchUp();
    if (signal.aborted) break;
    if (hasEnded(job.state)) {
      await log?.lastWords(sleep);
      return job;
    }
    await sleep(lookMs);
  }
  return undefined;
}

/** What was printed since the last look, in whole letters. */
function openLog(
  { client, id, from }: FollowOptions,
  write: (text: string) => void | Promise<void>,
  patiently: Patience,
): {
  catchUp(): Promise<void>;
  lastWords(sleep: (ms: number) => Promise<void>): Promise<void>;
} {
  const decoder = new StringDecoder('utf8');
  let at = from;
  const catchUp = async () => {
    for (;;) {
      const part = await patiently(() => readLog(client, id, at));
      if (part === undefined || part.next === at) return;
      at = part.next;
      await write(decoder.write(Buffer.from(part.bytes)));
    }
  };
  return {
    catchUp,
    async lastWords(sleep) {
      // The supervisor sums up when the job is over; a job that never ran has none.
      if (at > 0) await sleep(lookMs);
      await catchUp();
      await write(decoder.end());
    },
  };
}

type Patience = <T>(ask: () => Promise<T>) => Promise<T | undefined>;

/** Asks again while no server answers; undefined when it was stopped. */
function patience(
  { client, notify, signal }: FollowOptions,
  sleep: (ms: number) => Promise<void>,
): Patience {
  let isAway = false;
  return async (ask) => {
    for (;;) {
      try {
        const answer = await ask();
        if (isAway) notify('The server is back.');
        isAway = false;
        return answer;
      } catch (error) {
        if (signal.aborted) return undefined;
        if (!isPassing(error)) throw error;
        if (!isAway) {
          notify(
            `The server at ${placeOf(client.address)} does not answer; waiting for it. Jobs go on.`,
          );
        }
        isAway = true;
      }
      await sleep(lookMs);
    }
  };
}

/** While a server closes or starts, it may answer so. */
function isPassing(error: unknown): boolean {
  return error instanceof Failure && [unreachableCode, 'closing', 'too-busy'].includes(error.code);
}

/** Ends early, and without an error, when it is stopped. */
export function sleepFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
