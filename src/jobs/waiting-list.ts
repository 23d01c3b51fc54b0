import type { WaitingJob } from './types.js';

/** Waiting this long weighs as much as one step of priority. */
export const agingSeconds = 600;

/**
 * A job's place in the order: the smaller, the sooner. Age and priority count as one figure that
 * does not change while the job waits: one that comes later than a job by more than the priorities
 * differ can never overtake it, so no job starves.
 */
export function turnOf(submittedMs: number, priority: number): number {
  return submittedMs - priority * agingSeconds * 1000;
}

/** Jobs in order of their turn, and by when they expire. Made for 100,000 of them and more. */
export class WaitingList {
  readonly #byId = new Map<string, WaitingJob>();
  readonly #byTurn = new SortedJobs(({ turn }) => turn);
  readonly #byDeadline = new SortedJobs(({ deadlineMs }) => deadlineMs ?? Number.POSITIVE_INFINITY);

  constructor(jobs: Iterable<WaitingJob> = []) {
    for (const job of jobs) this.#byId.set(job.id, job);
    this.#byTurn.fill(this.#byId.values());
    this.#byDeadline.fill([...this.#byId.values()].filter(hasDeadline));
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): WaitingJob | undefined {
    return this.#byId.get(id);
  }

  add(job: WaitingJob): void {
    this.remove(job.id);
    this.#byId.set(job.id, job);
    this.#byTurn.add(job);
    if (hasDeadline(job)) this.#byDeadline.add(job);
  }

  /** Changes what a job needs; its turn and its deadline stay, and so its place. */
  change(id: string, need: Partial<Omit<WaitingJob, 'id' | 'turn' | 'deadlineMs'>>): void {
    const before = this.#byId.get(id);
    if (before === undefined) return;
    const job = { ...before, ...need };
    this.#byId.set(id, job);
    this.#byTurn.replace(job);
    if (hasDeadline(job)) this.#byDeadline.replace(job);
  }

  remove(id: string): void {
    const job = this.#byId.get(id);
    if (job === undefined) return;
    this.#byId.delete(id);
    this.#byTurn.remove(job);
    if (hasDeadline(job)) this.#byDeadline.remove(job);
  }

  /** The first so many in order; of those that are wanted, where that is said. */
  first(most: number, isWanted?: (job: WaitingJob) => boolean): readonly WaitingJob[] {
    return this.#byTurn.first(most, isWanted);
  }

  /** 1 is next; undefined of one that does not wait. */
  position(id: string): number | undefined {
    const job = this.#byId.get(id);
    return job && this.#byTurn.place(job) + 1;
  }

  values(): Iterable<WaitingJob> {
    return this.#byId.values();
  }

  /** Those whose waiting is over. */
  expired(nowMs: number): readonly WaitingJob[] {
    return this.#byDeadline.upTo(nowMs);
  }
}

function hasDeadline({ deadlineMs }: WaitingJob): boolean {
  return deadlineMs !== undefined;
}

/** Jobs sorted by a key, those of the same key by their id. */
class SortedJobs {
  readonly #key: (job: WaitingJob) => number;
  #jobs: WaitingJob[] = [];

  constructor(key: (job: WaitingJob) => number) {
    this.#key = key;
  }

  fill(jobs: Iterable<WaitingJob>): void {
    this.#jobs = Array.from(jobs).toSorted((a, b) => this.#compare(a, b));
  }

  add(job: WaitingJob): void {
    this.#jobs.splice(this.place(job), 0, job);
  }

  replace(job: WaitingJob): void {
    this.#jobs[this.place(job)] = job;
  }

  remove(job: WaitingJob): void {
    this.#jobs.splice(this.place(job), 1);
  }

  first(most: number, isWanted?: (job: WaitingJob) => boolean): readonly WaitingJob[] {
    if (isWanted === undefined) return this.#jobs.slice(0, most);
    const found: WaitingJob[] = [];
    for (const job of this.#jobs) {
      if (found.length >= most) break;
      if (isWanted(job)) found.push(job);
    }
    return found;
  }

  upTo(key: number): readonly WaitingJob[] {
    const end = this.#jobs.findIndex((job) => this.#key(job) > key);
    return this.#jobs.slice(0, end === -1 ? this.#jobs.length : end);
  }

  /** Returns the place of a job, present or not. */
  place(job: WaitingJob): number {
    let low = 0;
    let high = this.#jobs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#jobs[middle];
      if (other !== undefined && this.#compare(other, job) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #compare(a: WaitingJob, b: WaitingJob): number {
    const [left, right] = [this.#key(a), this.#key(b)];
    if (left !== right) return left < right ? -1 : 1;
    // Ids are numbers as text: a shorter one came earlier.
    if (a.id.length !== b.id.length) return a.id.length - b.id.length;
    return a.id < b.id ? -1 : Number(a.id > b.id);
  }
}
