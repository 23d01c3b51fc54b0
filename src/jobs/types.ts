import type { Attempt } from '../run/types.js';
import type { Known } from '../units/known.js';
import type { Basis } from './basis.js';
import type { JobReason } from './reasons/types.js';

/** Who has the server's own token; every job was his before there were users. */
export const ownerName = 'owner';

/** Where a job stands. The last five are ends: nothing follows them. */
export const jobStates = [
  'waiting',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'refused',
  'expired',
] as const;
export type JobState = (typeof jobStates)[number];

/** Bytes of devices that are promised to a job. */
export interface Reservation {
  /** `gpu:0`, or `host`. */
  readonly devices: readonly string[];
  /** On each of the devices. */
  readonly bytes: number;
  readonly basis: Basis;
  /** Of devices that are not there: a scenario or a recorded trace stands for them. */
  readonly simulated?: boolean;
}

/** What a person asked to run, and what became of it. */
export interface Job {
  readonly id: string;
  readonly name: string;
  /** Who submitted it. */
  readonly owner: string;
  readonly state: JobState;
  /** Why it is in that state; null where the state says it all. `reasonWords` makes a sentence of it. */
  readonly reason: JobReason | null;
  readonly command: readonly string[];
  /** The higher, the sooner. */
  readonly priority: number;
  readonly submittedAt: string;
  /** Of a running job; what an ended one had. */
  readonly reservation: Reservation | null;
  readonly attempts: readonly Attempt[];
}

/** What a job needs of the devices. */
export interface Need {
  /** On each of its devices. */
  readonly bytes: number;
  readonly basis: Basis;
  /** 0 asks for the host's memory. Where there is no GPU at all, a job that asks for one runs there, too. */
  readonly gpus: number;
}

/** Seconds by which a job is ahead of its turn. */
export interface HeadStart {
  readonly size: number;
  readonly length: number;
  readonly first: number;
}

/** A job that waits for its turn. */
export interface WaitingJob extends Need {
  readonly id: string;
  /** Left out where quotas do not count. */
  readonly owner?: string | undefined;
  /** The smaller, the sooner: see `turnOf`. */
  readonly turn: number;
  /** What of its turn is priority; 0 where it is left out. */
  readonly priority?: number | undefined;
  /** Seconds that it is ahead of its turn, and for what: see `inOrder`. */
  readonly headStart?: HeadStart | undefined;
  /** When waiting ends with the state `expired`, by the queue's time; undefined is never. */
  readonly deadlineMs?: number | undefined;
  /** How long jobs of the same workload ran. */
  readonly expectedSeconds: Known<number>;
  readonly workloadKey?: string | undefined;
  /** Its need is unknown: it gets a whole device. */
  readonly alone?: boolean | undefined;
  /** It waits for its estimate, and cannot start before. */
  readonly estimating?: boolean | undefined;
  /** With so much it may start where more is not free; left out, it waits for all that it needs. */
  readonly leastBytes?: number | undefined;
}

/** A job that runs. */
export interface RunningJob {
  readonly id: string;
  readonly owner?: string | undefined;
  readonly turn: number;
  readonly reservation: Reservation;
  /** By the queue's time, in milliseconds; `unknown` once it ran longer than any of its workload did. */
  readonly expectedEndMs: Known<number>;
  readonly workloadKey?: string | undefined;
  readonly priority?: number | undefined;
  /** Of one whose limit may move by itself. */
  readonly elastic?: ElasticRun | undefined;
}

export interface ElasticRun {
  /** With so much nothing of it gives way. */
  readonly needBytes: number;
  readonly leastBytes: number;
  /** A lower limit that it was asked to keep, and has not answered yet. */
  readonly askedBytes?: number | undefined;
}

const allowed: Readonly<Record<JobState, readonly JobState[]>> = {
  waiting: ['running', 'cancelled', 'refused', 'expired'],
  running: ['succeeded', 'failed', 'cancelled'],
  succeeded: [],
  failed: [],
  cancelled: [],
  refused: [],
  expired: [],
};

/** A job never goes back: one that ran never waits again, so that none runs twice. */
export function mayBecome(from: JobState, to: JobState): boolean {
  return allowed[from].includes(to);
}

export function hasEnded(state: JobState): boolean {
  return allowed[state].length === 0;
}
