import { changesOf } from '../../../plan/environment/job-environment.js';
import { isKnown, type Known } from '../../../units/known.js';
import { isDegradedReason, isNeedReason, needReasonWords } from '../../reasons/is-reason.js';
import { reasonWords } from '../../reasons/words.js';
import type { StoredJob } from '../../store/records.js';
import type { LimitState, RunningEntry } from '../running/running-jobs.js';
import type { JobRequest, JobSummary, JobView } from '../types.js';

/** What is known of a job that runs, beside what is stored. */
export interface LiveFacts {
  readonly usedBytes: Known<number>;
  readonly currentAttempt: JobView['currentAttempt'];
  readonly limit: JobView['limit'];
}

export function jobSummary(stored: StoredJob, waiting: JobView['waiting']): JobSummary {
  const { job, need, details, startedMs, endedMs, ending, estimating } = stored;
  const isEnding = job.state === 'running' && ending !== undefined;
  const reasonDetails = isEnding ? ending.reason : job.reason;
  const { settings, evidence } = details;
  // What these say is for people only: a job can run without them.
  const degradedReason = isDegradedReason(details.degradedReason) ? details.degradedReason : null;
  const degradedWhy = degradedReason === null ? '' : reasonWords(degradedReason);
  const basedOn = estimating ? ({ code: 'estimating' } as const) : evidence?.reason;
  const needReason = isNeedReason(basedOn) ? basedOn : null;
  return {
    ...job,
    // That it was degraded stays true whatever becomes of it.
    reason: [
      reasonDetails === null ? '' : reasonWords(reasonDetails),
      isEnding ? 'It is being ended.' : '',
      degradedWhy,
    ]
      .filter((words) => words !== '')
      .join(' '),
    reasonDetails,
    startedAt: startedMs === undefined ? null : new Date(startedMs).toISOString(),
    endedAt: endedMs === undefined ? null : new Date(endedMs).toISOString(),
    need: {
      bytes: need.bytes,
      basis: need.basis,
      why: needReason === null ? '' : needReasonWords(needReason),
      whyDetails: needReason,
      estimatedBytes: evidence?.estimatedBytes ?? 'unknown',
      runs: evidence?.runs ?? 0,
    },
    waiting,
    gpus: need.gpus,
    degraded:
      settings === undefined ? null : { ...settings, why: degradedWhy, whyDetails: degradedReason },
  };
}

export function jobView(
  stored: StoredJob,
  waiting: JobView['waiting'],
  live: LiveFacts | undefined,
  more: { readonly logBytes: number; readonly folder: string },
): JobView {
  return {
    ...jobSummary(stored, waiting),
    cwd: stored.details.cwd ?? more.folder,
    usedBytes: live?.usedBytes ?? 'unknown',
    currentAttempt: live?.currentAttempt ?? null,
    elastic: stored.details.elastic ?? null,
    limit: live?.limit ?? null,
    environmentChanges: stored.details.environmentChanges ?? [],
    log: { bytes: more.logBytes },
  };
}

/** The attempt that goes on, with the steps that it has told of. */
export function attemptNow({
  currentAttempt,
  run,
}: Pick<RunningEntry, 'currentAttempt' | 'run'>): JobView['currentAttempt'] {
  const progress = currentAttempt === null ? [] : (run?.progress(currentAttempt.number) ?? []);
  return currentAttempt === null || progress.length === 0
    ? currentAttempt
    : { ...currentAttempt, progress };
}

export function limitView(limit: LimitState | null): JobView['limit'] {
  return limit && { askedBytes: limit.askedBytes, state: limit.state, why: limit.why };
}

/** The request that a job came from: what was chosen or estimated for it is not in it. */
export function requestOf({ job, need, details }: StoredJob): JobRequest {
  const { cwd, env, workload, batch, timeoutSeconds, estimateTimeoutSeconds, elastic } = details;
  // The server that takes it adds its own again.
  const environmentChanges = details.environmentChanges?.filter(({ by }) => by === 'submit');
  return {
    command: job.command,
    ...(need.basis === 'stated' && { memoryBytes: need.bytes }),
    workload,
    priority: job.priority,
    gpus: need.gpus,
    timeoutSeconds,
    estimateTimeoutSeconds,
    cwd,
    env,
    ...changesOf({ environmentChanges }),
    name: job.name,
    batch,
    ...(elastic !== undefined && {
      elastic: { slowdown: elastic.slowdown, leastBytes: elastic.leastBytes },
    }),
  };
}

/** What a job holds of all its devices; `unknown` where one of them is. */
export function usedTogether(byDevice: ReadonlyMap<string, Known<number>>): Known<number> {
  const values = [...byDevice.values()];
  const known = values.filter(isKnown);
  return known.length < values.length ? 'unknown' : known.reduce((sum, bytes) => sum + bytes, 0);
}
