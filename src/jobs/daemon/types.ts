import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { EnvironmentChange } from '../../plan/environment/job-environment.js';
import type { Account, ClimbedRung, ProgressPoint, RunSettings } from '../../run/types.js';
import type { Known, Provenance } from '../../units/known.js';
import type { Alert, Forecast } from '../../watch/types.js';
import type { Basis } from '../basis.js';
import type { DegradedSettings } from '../degraded.js';
import type {
  DegradedReason,
  JobReason,
  NeedReason,
  OrderReason,
  WaitingReason,
} from '../reasons/types.js';
import type { Job, JobState } from '../types.js';

/** What somebody asks to run: the body of `POST /jobs`. */
export interface JobRequest {
  readonly command: readonly string[];
  /** What it takes of each device, all in all. */
  readonly memoryBytes?: number | undefined;
  /** The model and how it is run, for an estimate. */
  readonly workload?: WorkloadRequest | undefined;
  /** The higher, the sooner; 0 where it is left out. */
  readonly priority?: number | undefined;
  /** 1 where it is left out; 0 asks for the host's memory. */
  readonly gpus?: number | undefined;
  /** How long it may wait; then it is `expired`. */
  readonly timeoutSeconds?: number | undefined;
  /** An absolute path; the daemon's own folder where it is left out. */
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** What the one who submits changed in that environment, to be shown. */
  readonly environmentChanges?: readonly EnvironmentChange[] | undefined;
  readonly name?: string | undefined;
  /** Samples of one batch, for a command with {batch_size}. */
  readonly batch?: number | undefined;
  /** How long the trace of a program may take that states nothing (120); 0 leaves it out. */
  readonly estimateTimeoutSeconds?: number | undefined;
  /** It may start with less than it needs, and its limit may move while it runs. */
  readonly elastic?: ElasticRequest | undefined;
  /** Sent again with the same word, it answers the job that is there. */
  readonly submission?: string | undefined;
}

export interface ElasticRequest {
  /** Its step may take so many times as long; 1.5 where it is left out. */
  readonly slowdown?: number | undefined;
  /** What it can do with; left out, by the prediction of its estimate. */
  readonly leastBytes?: number | undefined;
}

/** Who submits a job. */
export interface Submitter {
  readonly name: string;
  /** What it runs as; left out, what the daemon itself is. */
  readonly account?: Account | undefined;
}

/** A job as the server shows it: JOB of the contract, and what people want to know beside it. */
export interface JobView extends Omit<Job, 'reason'> {
  /** Why it is in that state, in words; empty where the state says it all. */
  readonly reason: string;
  /** The same for programs: a code with its data. */
  readonly reasonDetails: JobReason | null;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly gpus: number;
  readonly cwd: string;
  /** What it needs on each device, and where the figure comes from. */
  readonly need: {
    readonly bytes: number;
    readonly basis: Basis;
    /** What the figure rests on, in words; empty where that is unknown. */
    readonly why: string;
    /** The same for programs: a code with its data. */
    readonly whyDetails: NeedReason | null;
    /** What was estimated before measured runs corrected it. */
    readonly estimatedBytes: Known<number>;
    /** The runs of the same workload that it rests on. */
    readonly runs: number;
  };
  /** Of a waiting job. */
  readonly waiting: null | {
    /** 1 is next, of those that wait for the same memory: that of the GPUs, or that of the host. */
    readonly position: number;
    readonly why: string;
    /** The same for programs: a code with its data. */
    readonly whyDetails: WaitingReason;
    /** Why the job before it is there, in words; empty of the first, and far behind in a long queue. */
    readonly order: string;
    /** The same for programs: a code with its data. */
    readonly orderDetails: OrderReason | null;
    readonly expectedStartAt: Known<string>;
    readonly expiresAt: string | null;
  };
  /** What it holds of its devices now, together; `unknown` where it is not known. */
  readonly usedBytes: Known<number>;
  /** The attempt that goes on; `attempts` has those that ended. */
  readonly currentAttempt: null | {
    readonly number: number;
    readonly settings: RunSettings;
    readonly startedAt: string;
    readonly rungs: readonly ClimbedRung[];
    /** Of a program that tells of its steps: some of them so far. */
    readonly progress?: readonly ProgressPoint[];
  };
  /** Of a job that may have less than it needs: what is accepted, and the least for that. */
  readonly elastic: null | {
    readonly slowdown: number;
    readonly leastBytes?: number | undefined;
    readonly foundBytes?: number | undefined;
  };
  /** The limit that it was asked to keep since it runs; null where it never was. */
  readonly limit: null | {
    readonly askedBytes: number;
    /** `kept`: something in it cannot give way, and it keeps what is reserved. */
    readonly state: 'asked' | 'set' | 'kept';
    /** Why it is kept; empty otherwise. */
    readonly why: string;
  };
  /** What its plan set, where it would not have fitted, and why. */
  readonly degraded:
    | null
    | (DegradedSettings & { readonly why: string; readonly whyDetails: DegradedReason | null });
  /** Variables that it gets otherwise than the person or the server has them. */
  readonly environmentChanges: readonly EnvironmentChange[];
  readonly log: { readonly bytes: number };
}

/** One line of a list of jobs: 1,000 of them travel at once. */
export type JobSummary = Pick<
  JobView,
  | 'id'
  | 'name'
  | 'owner'
  | 'state'
  | 'reason'
  | 'reasonDetails'
  | 'command'
  | 'priority'
  | 'submittedAt'
  | 'startedAt'
  | 'endedAt'
  | 'reservation'
  | 'attempts'
  | 'need'
  | 'waiting'
  | 'gpus'
  | 'degraded'
>;

/** A device with its reservations. */
export interface DeviceView {
  readonly id: string;
  readonly name: string;
  readonly source: string;
  readonly provenance: Provenance;
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly processes: Known<
    readonly {
      readonly pid: number;
      readonly name: Known<string>;
      readonly usedBytes: Known<number>;
    }[]
  >;
  /** Reservations may fill it up to here. */
  readonly loadLineBytes: number;
  /** Used by processes that are not jobs. */
  readonly otherProcessesBytes: Known<number>;
  readonly reservedBytes: number;
  /** Reserved by jobs that ended, until the device reports the memory free. */
  readonly releasingBytes: number;
  /** Available to jobs now. */
  readonly availableBytes: number;
  readonly reservations: readonly {
    readonly jobId: string;
    readonly name: string;
    readonly bytes: number;
    readonly usedBytes: Known<number>;
    readonly isReleasing: boolean;
  }[];
  readonly forecast: Forecast;
  readonly alerts: readonly Alert[];
  /**
   * False: no job is placed here, as GPU_DEVICE or USE_GPU left it out. Where there are GPUs the host
   * takes those that ask for it (`gpus` 0).
   */
  readonly takesJobs: boolean;
}

/** Use over time, thinned so that peaks stay. */
export interface DeviceHistory {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly epochMs: readonly number[];
  readonly usedMax: readonly (number | null)[];
  readonly usedMin: readonly (number | null)[];
  readonly alerts: readonly Alert[];
}

/** What a job held over time. */
export interface JobHistory {
  readonly epochMs: readonly number[];
  readonly usedBytes: readonly (number | null)[];
}

/**
 * What happens, as it is sent to those who listen. Changes of jobs have an id and are kept: who
 * comes back names the last one and misses none. Readings have none: only the latest counts.
 */
export type DaemonEvent =
  | { readonly type: 'job'; readonly id: number; readonly job: JobSummary; readonly what: string }
  | { readonly type: 'devices'; readonly epochMs: number; readonly devices: readonly DeviceView[] }
  | { readonly type: 'alert'; readonly alert: Alert }
  /** The queue moved: positions and expected starts of those that wait, the first hundred. */
  | {
      readonly type: 'queue';
      readonly waiting: readonly ({ readonly id: string } & NonNullable<JobView['waiting']>)[];
      readonly counts: Readonly<Record<JobState, number>>;
    };

/** `GET /workers/status`: what the server holds, in one look. */
export interface WorkersStatus {
  readonly activeJobs: number;
  readonly waitingJobs: number;
  readonly reservedBytes: number;
  readonly waitingBytes: number;
  readonly devices: readonly {
    readonly id: string;
    readonly totalBytes: Known<number>;
    readonly usedBytes: Known<number>;
    readonly freeBytes: Known<number>;
    readonly usedPercent: Known<number>;
    /** `available`, `full` (nothing is available to jobs), `unknown`. */
    readonly status: string;
  }[];
}

/** A part of what a job printed. An offset is a place in all that it ever printed. */
export interface LogAnswer {
  /** As the job wrote them; where a part of the log is missing, a line of ours stands for it. */
  readonly bytes: Uint8Array;
  /** Of all that it ever printed, with what is missing. */
  readonly size: number;
  /** The offset to read on from: behind these bytes, and behind what is missing. */
  readonly next: number;
}

/** The daemon as the server sees it. Every method that can be asked wrongly throws a `Failure`. */
export interface Daemon {
  /** Without a submitter it is the owner's. */
  submit(request: JobRequest, by?: Submitter): Promise<JobView>;
  /** Of a job that ended already: a `Failure` with the code `job-has-ended`. */
  cancel(id: string): Promise<JobView>;
  /**
   * Another limit for a job that runs. More is reserved at once, or refused (`no-room`); less is
   * reserved once the program keeps to it: the view's `limit` tells.
   */
  limit(id: string, bytes: number): Promise<JobView>;
  /** A `Failure` with the code `unknown-job` where there is none. */
  job(id: string): JobView;
  /** What was asked for, as it can be submitted again. */
  request(id: string): JobRequest;
  jobs(filter: {
    readonly states?: readonly JobState[] | undefined;
    /** Jobs with a smaller id, the newest first, where `newestFirst`; else with a larger one. */
    readonly after?: string | undefined;
    readonly newestFirst?: boolean | undefined;
    readonly limit?: number | undefined;
  }): readonly JobSummary[];
  counts(): Readonly<Record<JobState, number>>;
  /** What the job printed, from an offset; at most `most` bytes. */
  readLog(id: string, from: number, most: number): Promise<LogAnswer>;
  jobHistory(id: string): JobHistory;
  devices(): readonly DeviceView[];
  deviceHistory(id: string, windowSeconds: number, points: number): DeviceHistory;
  status(): WorkersStatus;
  /** Kept changes after an id; `first` is the oldest that is kept. */
  eventsAfter(
    id: number,
    most: number,
  ): { events: readonly DaemonEvent[]; first: number; last: number };
  /** Listeners must not throw and must not block. Answers how to stop listening. */
  listen(listener: (event: DaemonEvent) => void): () => void;
  /** Whether it still decides and can write; where not, why, in a sentence. */
  health(): { readonly ok: boolean; readonly why: string };
  /** Stops deciding; jobs go on and are found again at the next start. */
  close(): Promise<void>;
}
