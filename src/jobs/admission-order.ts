import { isKnown } from '../units/known.js';
import type { Room } from './placement.js';
import type { RunningJob, WaitingJob } from './types.js';

/**
 * Head start of a job in the queue, in seconds; found with `npm run bench packing` on seeds 1 to 30
 * and judged on 80 others. Together they are less than one step of priority: no new job, however
 * large, can overtake a job that has waited longer.
 */
export const headStarts = {
  /** For as much as the largest device has: small jobs find a gap any time, large ones do not. */
  size: 420,
  /** For an hour and more: a long job that starts last runs on when all others are done. */
  length: 60,
  /** For the first of a workload: what it measures, all others of it need no longer reserve. */
  first: 90,
};
const longSeconds = 3600;

/**
 * The jobs in the order in which they are looked at, each with the turn that it has so. Large ones,
 * long ones and the first of each workload come a little sooner; those with the same turn come in
 * the order given.
 *
 * @example
 * const waiting = inOrder(list.first(1000), running, ledger.rooms());
 * const { starts } = admit({ waiting, running, rooms: ledger.rooms(), holds, nowMs });
 */
export function inOrder(
  waiting: readonly WaitingJob[],
  running: readonly Pick<RunningJob, 'workloadKey'>[],
  rooms: readonly Pick<Room, 'loadLineBytes'>[],
): readonly WaitingJob[] {
  const largest = Math.max(1, ...rooms.map(({ loadLineBytes }) => loadLineBytes));
  const tried = new Set(running.map(({ workloadKey }) => workloadKey));
  return sorted(
    waiting.map((job) => {
      const { workloadKey: key } = job;
      const unmeasured = job.basis === 'estimated' || job.basis === 'unknown';
      const isFirst = unmeasured && key !== undefined && !tried.has(key);
      if (isFirst) tried.add(key);
      return ahead(job, largest, isFirst);
    }),
  );
}

/** By turn; numbers alone sort many times as fast as objects do. */
function sorted(jobs: readonly WaitingJob[]): readonly WaitingJob[] {
  // A turn counts milliseconds and has 41 bits: the place of each job fits in behind it.
  const count = jobs.length;
  const keys = Float64Array.from(jobs, ({ turn }, place) => Math.floor(turn) * count + place);
  return Array.from(keys.toSorted(), (key) => jobs[key - Math.floor(key / count) * count]).filter(
    (job) => job !== undefined,
  );
}

interface Ahead {
  readonly largest: number;
  readonly isFirst: boolean;
  readonly job: WaitingJob;
}

/** A thousand are looked at each time a job starts, and few of them changed since. */
const known = new WeakMap<WaitingJob, Ahead>();

/** The job with its head start. */
function ahead(job: WaitingJob, largest: number, isFirst: boolean): WaitingJob {
  const before = known.get(job);
  if (before?.largest === largest && before.isFirst === isFirst) return before.job;
  const headStart = {
    size: headStarts.size * Math.min(1, sizeOf(job) / largest),
    length: headStarts.length * lengthOf(job),
    first: isFirst ? headStarts.first : 0,
  };
  const seconds = headStart.size + headStart.length + headStart.first;
  const moved = { ...job, headStart, turn: job.turn - Math.round(seconds * 1000) };
  known.set(job, { largest, isFirst, job: moved });
  return moved;
}

/** On all of its devices together: those that need several at once are the hardest to place. */
function sizeOf({ bytes, gpus }: WaitingJob): number {
  return bytes * Math.max(1, gpus);
}

/** From 0 to 1. One of unknown length may be long. */
function lengthOf({ expectedSeconds }: WaitingJob): number {
  return isKnown(expectedSeconds) ? Math.min(1, expectedSeconds / longSeconds) : 1;
}
