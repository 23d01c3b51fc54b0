import type { JobState, JobSummary } from '../../api/types.js';
import { createStore } from '../live/store.js';

/** Kept while one looks at a job and comes back. */
export const listFilter = createStore<JobFilter>({ state: 'all', search: '' });

/** The filters of the list. */
export interface JobFilter {
  readonly state: JobState | 'all' | 'ended';
  readonly search: string;
}

const rank: Readonly<Record<JobState, number>> = {
  running: 0,
  waiting: 1,
  succeeded: 2,
  failed: 2,
  cancelled: 2,
  refused: 2,
  expired: 2,
};

/**
 * The jobs of the list in its order: what runs, then what waits by its turn, then what ended, the
 * latest first. `before` is the list as it was: what is nearly in order is sorted ten times faster.
 */
export function listedJobs(
  jobs: ReadonlyMap<string, JobSummary>,
  filter: JobFilter,
  before: readonly JobSummary[] = [],
): readonly JobSummary[] {
  const words = filter.search.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (job: JobSummary): boolean =>
    inState(job.state, filter.state) && words.every((word) => haystack(job).includes(word));
  const known = new Set<string>();
  const [same, moved]: [JobSummary[], JobSummary[]] = [[], []];
  for (const { id } of before) {
    known.add(id);
    const job = jobs.get(id);
    if (job !== undefined && matches(job)) same.push(job);
  }
  for (const [id, job] of jobs) if (!known.has(id) && matches(job)) moved.push(job);
  return [...moved, ...same].toSorted(byTurn);
}

function inState(state: JobState, wanted: JobFilter['state']): boolean {
  if (wanted === 'all') return true;
  return wanted === 'ended' ? rank[state] === 2 : state === wanted;
}

function byTurn(one: JobSummary, other: JobSummary): number {
  const first = rank[one.state] - rank[other.state];
  if (first !== 0) return first;
  if (one.state === 'waiting') {
    return positionOf(one) - positionOf(other) || other.priority - one.priority || byId(one, other);
  }
  if (one.state === 'running') return byId(other, one);
  const later = endOf(other) - endOf(one);
  return later === 0 ? byId(other, one) : later;
}

/** Only the first are told their position; the rest follow by priority and age. */
function positionOf({ waiting }: JobSummary): number {
  return waiting?.position ?? Number.MAX_SAFE_INTEGER;
}

function byId(one: JobSummary, other: JobSummary): number {
  return Number(one.id) - Number(other.id) || (one.id < other.id ? -1 : Number(one.id > other.id));
}

/** Ten thousand dates are parsed once, not at each sort. */
const ends = new WeakMap<JobSummary, number>();
function endOf(job: JobSummary): number {
  let end = ends.get(job);
  if (end === undefined) {
    end = Date.parse(job.endedAt ?? job.submittedAt);
    ends.set(job, end);
  }
  return end;
}

/** The searched text of each job, made once. */
const texts = new WeakMap<JobSummary, string>();
function haystack(job: JobSummary): string {
  let text = texts.get(job);
  if (text === undefined) {
    text = `${job.name}\n#${job.id}\n${job.command.join(' ')}`.toLowerCase();
    texts.set(job, text);
  }
  return text;
}
