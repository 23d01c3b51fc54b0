import type { EngineRun, RunNews } from '../../../engine/types.js';
import type { Attempt } from '../../../run/types.js';
import { MiB } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { EndReason, OveruseWarning } from '../../reasons/types.js';
import type { Ending, StoredJob } from '../../store/records.js';
import type { Reservation } from '../../types.js';
import type { JobView } from '../types.js';
import type { JobSeries } from '../views/job-series.js';

/** A job that runs, with what is seen of it. */
export interface RunningEntry {
  readonly id: string;
  readonly name: string;
  readonly runId: string;
  readonly workloadKey: string;
  /** It moves with the limit of the job. */
  reservation: Reservation;
  /** The limit that was asked for last, and what became of it. */
  limit: LimitState | null;
  readonly alone: boolean;
  readonly series: JobSeries;
  /** What happened and is not in the store yet: it may not be written while the disk is full. */
  readonly inbox: RunNews[];
  readonly attempts: Attempt[];
  run: EngineRun | undefined;
  ending: Ending | undefined;
  wasStopped: boolean;
  currentAttempt: JobView['currentAttempt'];
  usedBytes: Known<number>;
  over: Overuse | undefined;
  /** When its series was last written down. */
  savedAt: number;
}

/** A limit that was asked for while the job runs. */
export interface LimitState {
  readonly askedBytes: number;
  /** `kept`: something in it cannot give way, and it keeps what it has reserved. */
  readonly state: 'asked' | 'set' | 'kept';
  /** Why it is kept; empty otherwise. */
  readonly why: string;
  readonly byPerson: boolean;
}

export function runningEntry(
  stored: StoredJob,
  { reservation, runId }: { readonly reservation: Reservation; readonly runId: string },
  series: JobSeries,
): RunningEntry {
  return {
    id: stored.job.id,
    name: stored.job.name,
    runId,
    workloadKey: stored.workloadKey,
    reservation,
    limit: null,
    alone: stored.alone,
    series,
    inbox: [],
    attempts: [],
    run: undefined,
    ending: stored.ending,
    wasStopped: false,
    currentAttempt: null,
    usedBytes: 'unknown',
    over: undefined,
    savedAt: 0,
  };
}

/** Jobs that run, by their own id and by that of their run. */
export class RunningJobs {
  readonly #byId = new Map<string, RunningEntry>();
  readonly #byRun = new Map<string, RunningEntry>();

  add(entry: RunningEntry): void {
    this.#byId.set(entry.id, entry);
    this.#byRun.set(entry.runId, entry);
  }

  remove({ id, runId }: RunningEntry): void {
    this.#byId.delete(id);
    this.#byRun.delete(runId);
  }

  get(id: string): RunningEntry | undefined {
    return this.#byId.get(id);
  }

  ofRun(runId: string): RunningEntry | undefined {
    return this.#byRun.get(runId);
  }

  all(): readonly RunningEntry[] {
    return [...this.#byId.values()];
  }
}

/** Figures of contexts and of the driver are this much off, which does no harm. */
const slackBytes = 128 * MiB;
const slackShare = 0.03;
/** A peak that passes is forgiven; one that stays is not. */
const graceSeconds = 10;

export interface Overuse {
  readonly sinceSeconds: number;
}

type OveruseVerdict =
  | { readonly verdict: 'fine' }
  | { readonly verdict: 'warn'; readonly over: Overuse; readonly warning: OveruseWarning }
  | { readonly verdict: 'end'; readonly over: Overuse; readonly reason: EndReason }
  | { readonly verdict: 'over'; readonly over: Overuse };

/**
 * Whether a job takes more than it was promised: it is warned first, then ended. Use that cannot be
 * read is not counted.
 */
export function judgeUse(options: {
  readonly usedBytes: Known<number>;
  readonly promisedBytes: number;
  /** It has its device to itself, and may take what is there. */
  readonly alone: boolean;
  readonly nowSeconds: number;
  readonly over: Overuse | undefined;
}): OveruseVerdict {
  const { usedBytes, promisedBytes, alone, nowSeconds, over } = options;
  const most = promisedBytes + Math.max(slackBytes, promisedBytes * slackShare);
  if (!isKnown(usedBytes) || usedBytes <= most) return { verdict: 'fine' };
  const facts = { usedBytes, reservedBytes: promisedBytes };
  if (over === undefined) {
    const warning = { ...facts, graceSeconds: alone ? null : graceSeconds };
    return {
      verdict: 'warn',
      over: { sinceSeconds: nowSeconds },
      warning: { code: 'over-reservation-warning', ...warning },
    };
  }
  if (alone || nowSeconds - over.sinceSeconds < graceSeconds) return { verdict: 'over', over };
  return { verdict: 'end', over, reason: { code: 'over-reservation', ...facts } };
}
