import { constants } from 'node:os';
import type { RunNews } from '../../../engine/types.js';
import type { Attempt } from '../../../run/types.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { EndReason, JobReason, ProgramEnd } from '../../reasons/types.js';
import type { Ending } from '../../store/records.js';
import type { JobState } from '../../types.js';

export interface JobEnd {
  readonly state: Extract<JobState, 'succeeded' | 'failed' | 'cancelled'>;
  readonly reason: JobReason | null;
}

/** How a job ended whose run is over. */
export function endOf(options: {
  readonly news: Extract<RunNews, { type: 'finished' | 'lost' }>;
  readonly attempts: readonly Attempt[];
  /** What was decided before. */
  readonly ending: Ending | undefined;
  /** Whether anybody asked the run to end. */
  readonly wasStopped: boolean;
}): JobEnd {
  const { news, attempts, ending, wasStopped } = options;
  if (news.type === 'lost') {
    return ending ?? { state: 'failed', reason: { code: 'lost', message: news.why } };
  }
  // It had come to its end by itself before anybody could ask.
  const byItself = news.outcome === 'succeeded' && !wasStopped;
  if (ending !== undefined && !byItself) return ending;
  if (news.outcome === 'succeeded') return { state: 'succeeded', reason: recovery(attempts) };
  const how = programEnd(news.exitCode);
  if (news.outcome === 'interrupted') {
    return { state: 'failed', reason: { code: 'interrupted', ...how } };
  }
  if (news.why !== undefined) {
    return { state: 'failed', reason: { code: 'not-started', message: news.why } };
  }
  return { state: 'failed', reason: outOfMemory(attempts) ?? { code: 'exited', ...how } };
}

function recovery(attempts: readonly Attempt[]): EndReason | null {
  const last = attempts.at(-1);
  if (attempts.length < 2 || last === undefined) return null;
  return { code: 'recovered', times: attempts.length - 1, settings: last.settings };
}

function outOfMemory(attempts: readonly Attempt[]): EndReason | undefined {
  const last = attempts.at(-1);
  if (last === undefined || last.outOfMemory === null) return undefined;
  const { askedBytes } = last.outOfMemory;
  const times = attempts.filter((attempt) => attempt.outOfMemory !== null).length;
  return { code: 'out-of-memory', times, askedBytes, peakBytes: last.peakBytes };
}

function programEnd(exitCode: Known<number>): ProgramEnd {
  const signal = Object.entries(constants.signals).find(
    ([, number]) => isKnown(exitCode) && number === exitCode - 128,
  );
  return { exitCode, signal: signal?.[0] ?? null };
}
