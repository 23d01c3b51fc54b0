import { Failure } from '../../failure.js';
import type { EnvironmentChange } from '../../plan/environment/job-environment.js';
import type { Account } from '../../run/types.js';
import type { Known } from '../../units/known.js';
import type { DegradedSettings } from '../degraded.js';
import type { DegradedReason, JobReason, NeedReason, RefusalReason } from '../reasons/types.js';
import { hasEnded, type Job, type JobState, type Need, type Reservation } from '../types.js';

/** What a job needs to run beside its command. */
export interface JobDetails {
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** What was changed in it by `submit`, and in the server's by `serve`. */
  readonly environmentChanges?: readonly EnvironmentChange[] | undefined;
  /** Model and settings, where they were told. */
  readonly workload?: Readonly<Record<string, unknown>> | undefined;
  /** What a plan set, where the job would not have fitted. */
  readonly settings?: DegradedSettings | undefined;
  /** Why it did; kept apart from the reason of a state, which the next state replaces. */
  readonly degradedReason?: DegradedReason | undefined;
  /** Samples of one batch, for a command that can be told. */
  readonly batch?: number | undefined;
  /** How long it was asked to wait at most. */
  readonly timeoutSeconds?: number | undefined;
  /** How long its trace was allowed to take. */
  readonly estimateTimeoutSeconds?: number | undefined;
  readonly evidence?: NeedEvidence | undefined;
  /** Of a job that may start with less than it needs. */
  readonly elastic?: ElasticDetails | undefined;
  /** The limit that a person set while it ran: it moves no further by itself. */
  readonly limitBytes?: number | undefined;
  /** What it runs as; left out, what the daemon itself is. */
  readonly account?: Account | undefined;
}

export interface ElasticDetails {
  /** Its step may take so many times as long. */
  readonly slowdown: number;
  /** What the person said that it can do with. */
  readonly leastBytes?: number | undefined;
  /** With so much it may start: what was said, else what is predicted for that slowdown. */
  readonly foundBytes?: number | undefined;
}

/** What the figure of a job's need rests on. */
export interface NeedEvidence {
  readonly reason: NeedReason;
  /** What was estimated before measured runs corrected it. */
  readonly estimatedBytes: Known<number>;
  readonly runs: number;
}

/** How a running job shall end, decided and not yet come about. */
export interface Ending {
  readonly state: 'cancelled' | 'failed';
  readonly reason: JobReason;
}

/** A job to be kept. */
export interface NewJob {
  readonly name: string;
  readonly owner: string;
  readonly command: readonly string[];
  readonly priority: number;
  readonly need: Need;
  readonly workloadKey: string;
  readonly details: JobDetails;
  /** When waiting ends, by the queue's time; undefined is never. */
  readonly deadlineMs?: number | undefined;
  /** Its need is unknown: it gets a whole device. */
  readonly alone?: boolean | undefined;
  /** Its program is to be traced before it may start. */
  readonly estimating?: boolean | undefined;
  /** Why it is refused at once; left out where it is not. */
  readonly refused?: RefusalReason | undefined;
  /**
   * A name that the caller chose. Sending it again answers the job that is there: somebody who did
   * not hear our answer can ask again without doubling the job.
   */
  readonly submission?: string | undefined;
}

/** What the estimate of a job found. */
export type EstimatedJob = Pick<NewJob, 'need' | 'alone' | 'deadlineMs' | 'refused'> & {
  readonly evidence: NeedEvidence;
  /** Of an elastic job: with so much it may start. */
  readonly leastBytes?: number | undefined;
};

/** A job with all that is kept of it. */
export interface StoredJob {
  readonly job: Job;
  readonly need: Need;
  readonly turn: number;
  readonly workloadKey: string;
  readonly details: JobDetails;
  readonly submittedMs: number;
  readonly deadlineMs: number | undefined;
  readonly startedMs: number | undefined;
  readonly endedMs: number | undefined;
  /** The run that carries it out; named before it is launched, so that it can be found again. */
  readonly runId: string | undefined;
  readonly alone: boolean;
  /** It waits for its estimate, or ended before it had one. */
  readonly estimating: boolean;
  readonly ending: Ending | undefined;
}

/** Which jobs to list. */
export interface JobFilter {
  /** All where it is left out. */
  readonly states?: readonly JobState[] | undefined;
  /** Only those that came before (the newest first) or after (the oldest first) this id. */
  readonly after?: string | undefined;
  readonly newestFirst?: boolean | undefined;
  readonly limit?: number | undefined;
}

export const jobEventTypes = ['submitted', 'started', 'attempt', 'ended', 'note'] as const;
export type JobEventType = (typeof jobEventTypes)[number];

/** One change, in the order in which they happened. Ids only grow and are never used again. */
export interface JobEvent {
  readonly id: number;
  readonly atMs: number;
  readonly jobId: string;
  readonly type: JobEventType;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Another reservation of a job that runs. */
export interface JobResize {
  readonly bytes: number;
  /** Whether somebody asked for it; then it stays. */
  readonly byPerson: boolean;
}

export interface JobStart {
  readonly reservation: Reservation;
  readonly runId: string;
  readonly atMs: number;
}

/** A moment on three clocks, kept in the store so that the next daemon goes on from it. */
export interface ClockMark {
  /** Which run of the machine it was. */
  readonly boot: string;
  /** Since the machine was started. */
  readonly upMs: number;
  readonly queueMs: number;
  readonly epochMs: number;
}

export function unknownJob(id: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-job',
    fact: `There is no job "${id.slice(0, 40)}".`,
    next: 'Run "plimsoll jobs" to see them.',
  });
}

/** What was asked of a job does not go with the state it is in. */
export function badChange({ id, state }: Job, wanted: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-change',
    fact: `Job ${id} is ${state}: it cannot take ${/^an? /.test(wanted) ? wanted : `the state "${wanted}"`}.`,
    next: hasEnded(state) ? 'It has ended; submit it again.' : 'Look at it again first.',
  });
}
