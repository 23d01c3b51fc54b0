import type { RunSettings } from '../../run/types.js';
import type { Known } from '../../units/known.js';
import type { DegradedSettings } from '../degraded.js';

/**
 * The basis of a reservation. `unknown`: nothing is known of the job, and the figure is the load
 * line of a whole device.
 */
export const bases = ['stated', 'estimated', 'measured', 'unknown'] as const;
export type Basis = (typeof bases)[number];

/** A job that needs more than its devices allow. */
interface TooLarge {
  readonly bytes: number;
  readonly basis: Basis;
  readonly gpus: number;
  /** The largest reservation that each of its devices allows. */
  readonly largestBytes: number;
}

/** Why a job was refused when it was submitted. */
export type RefusalReason =
  | { readonly code: 'no-device' }
  | { readonly code: 'too-few-gpus'; readonly askedGpus: number; readonly foundGpus: number }
  | ({
      readonly code: 'too-large';
      /** The smallest settings that its command takes, and what it needs with them. */
      readonly smallest?:
        | { readonly settings: DegradedSettings; readonly bytes: number }
        | undefined;
      /** The command has no place for a smaller batch. */
      readonly missesPlaceholders?: boolean | undefined;
    } & TooLarge)
  | {
      readonly code: 'over-quota';
      readonly owner: string;
      readonly bytes: number;
      readonly basis: Basis;
      readonly maxMemoryBytes: number;
    };

/** Why a job runs with other settings than it asked for. */
export type DegradedReason =
  | ({
      readonly code: 'degraded';
      readonly settings: DegradedSettings;
      /** Its estimated need with them. */
      readonly degradedBytes: number;
    } & TooLarge)
  | EarlierText;

/** The basis of the figure of a job's need. */
export type NeedReason =
  | {
      readonly code: 'stated';
      readonly bytes: number;
      /** Runs of the same workload that were measured, and the highest peak of them. */
      readonly runs: number;
      readonly maxPeakBytes: Known<number>;
    }
  | {
      /** Nothing is known of it: it gets a whole device. */
      readonly code: 'no-estimate';
      /** Why a trace of the program failed; null where none was tried. */
      readonly traceFailure: string | null;
    }
  /** Nothing yet: its program is to be traced. */
  | { readonly code: 'estimating' }
  | {
      readonly code: 'estimated';
      readonly bytes: number;
      /** The program itself was traced, as it stated no workload. */
      readonly traced: boolean;
    }
  | {
      readonly code: 'measured';
      readonly runs: number;
      /** How many of them ran out of memory. */
      readonly outOfMemory: number;
      readonly maxPeakBytes: number;
      /** The margin reserved above that. */
      readonly marginBytes: number;
      readonly estimatedBytes: Known<number>;
      /** It ran out of memory on all that there is, and still succeeded. */
      readonly wholeDevice: boolean;
    }
  | EarlierText;

/** Why a job ended as it did. */
export type EndReason =
  | { readonly code: 'cancelled'; readonly during: 'waiting' | 'running' }
  | { readonly code: 'expired' }
  | { readonly code: 'recovered'; readonly times: number; readonly settings: RunSettings }
  | {
      readonly code: 'out-of-memory';
      readonly times: number;
      readonly askedBytes: Known<number>;
      readonly peakBytes: Known<number>;
    }
  | ({ readonly code: 'exited' | 'interrupted' } & ProgramEnd)
  | {
      readonly code: 'over-reservation';
      readonly usedBytes: number;
      readonly reservedBytes: number;
    }
  /** The program could not be launched, or its supervisor was lost. */
  | { readonly code: 'not-started' | 'lost'; readonly message: string }
  | { readonly code: 'damaged-record'; readonly column: string };

export interface ProgramEnd {
  readonly exitCode: Known<number>;
  /** `SIGKILL`; null where no signal ended it. */
  readonly signal: string | null;
}

/** The sentence that an earlier version kept in place of a code. */
interface EarlierText {
  readonly code: 'earlier-text';
  readonly text: string;
}

/** Why a job is in its state. */
export type JobReason = RefusalReason | EndReason | EarlierText;

/** A job uses more than it reserved; it is ended after the grace period, if there is one. */
export interface OveruseWarning {
  readonly code: 'over-reservation-warning';
  readonly usedBytes: number;
  readonly reservedBytes: number;
  readonly graceSeconds: number | null;
}

/** The program of a job is being traced, or is to be. */
export interface EstimatingReason {
  readonly code: 'estimating';
  /** Estimates of the same owner that come before. */
  readonly ahead: number;
  /** The work of the trace now, in words. */
  readonly doing: Known<string>;
  /** How far that is, from 0 to 1. */
  readonly share: Known<number>;
}

/** Why a job waits. */
export type WaitingReason =
  | EstimatingReason
  | { readonly code: 'concurrency-limit'; readonly limit: number }
  | QuotaReason
  | { readonly code: 'device-not-read' }
  | { readonly code: 'starting' }
  /** It would take memory that is kept for a job whose turn comes first. */
  | { readonly code: 'behind-job'; readonly jobId: string }
  | {
      readonly code: 'memory-in-use' | 'other-processes' | 'memory-being-released';
      /** On each of its devices. */
      readonly bytes: number;
      readonly devices: number;
      /** Nothing is known of its memory: it gets a whole device. */
      readonly wholeDevice: boolean;
      /** On the device with the most. */
      readonly freeBytes: number;
      /** Devices that are kept for it. */
      readonly keptDevices: readonly string[];
    }
  | { readonly code: 'jobs-ahead'; readonly jobs: number };

/** Why another job of the queue is before a job: what moves that one ahead the most. */
export type OrderReason =
  | {
      readonly code: 'priority';
      readonly jobId: string;
      readonly priority: number;
      readonly ownPriority: number;
    }
  /** By how much it was submitted earlier. */
  | { readonly code: 'earlier'; readonly jobId: string; readonly seconds: number }
  | { readonly code: 'larger' | 'longer' | 'first-of-workload'; readonly jobId: string };

/** The quota of the owner is used up. */
export type QuotaReason =
  | {
      readonly code: 'job-quota';
      readonly owner: string;
      readonly maxJobs: number;
      readonly runningJobs: number;
    }
  | {
      readonly code: 'memory-quota';
      readonly owner: string;
      readonly bytes: number;
      readonly maxMemoryBytes: number;
      readonly reservedBytes: number;
    };
