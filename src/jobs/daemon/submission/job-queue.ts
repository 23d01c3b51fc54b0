import type { Clock } from '../../../time/clock.js';
import { formatSeconds } from '../../../units/durations.js';
import { isKnown, type Known } from '../../../units/known.js';
import {
  type Admission,
  admit,
  type Hold,
  type QueueSettings,
  type QueueState,
} from '../../admission.js';
import { inOrder } from '../../admission-order.js';
import { largestOffer } from '../../fit-verdict.js';
import type { DeviceRoom } from '../../ledger.js';
import { candidates } from '../../placement.js';
import { Shares } from '../../quota.js';
import type { OrderReason } from '../../reasons/types.js';
import { waitingReasonWords } from '../../reasons/words.js';
import type { ClockMark } from '../../store/records.js';
import type { Need, RunningJob, WaitingJob } from '../../types.js';
import { WaitingList } from '../../waiting-list.js';
import { explainWaiting, placesOf, type WaitingStatus } from '../../waiting-reasons.js';
import type { JobView } from '../types.js';

/** Those that admission looks at. */
const lookedAt = 1000;
/** So old may be what is told of why jobs wait. */
const reasonsMs = 400;
const shortQueue = 100;

type Waiting = NonNullable<JobView['waiting']>;

/** Who waits and who runs, and what follows from that. It touches nothing. */
export class JobQueue {
  readonly #waiting: WaitingList;
  readonly #running = new Map<string, RunningJob>();
  readonly #settings: QueueSettings;
  /** Of those whose need can change while they wait. */
  readonly #byWorkload = new Map<string, Set<string>>();
  readonly #byOwner = new Map<string, number>();
  #holds: readonly Hold[] = [];
  #waitingBytes = 0;
  /** Looked up many times for one answer; soon after it is looked at anew. */
  #reasons:
    | {
        readonly atMs: number;
        readonly of: ReadonlyMap<string, WaitingStatus>;
        readonly positions: ReadonlyMap<string, number>;
      }
    | undefined;
  /** As they were when jobs were admitted last. */
  #rooms: readonly DeviceRoom[] = [];

  constructor(waiting: Iterable<WaitingJob>, settings: QueueSettings) {
    this.#waiting = new WaitingList(waiting);
    this.#settings = settings;
    for (const job of this.#waiting.values()) {
      this.#index(job);
      this.#countOwner(job, 1);
      this.#waitingBytes += job.bytes;
    }
  }

  /** Whether one that runs may give way, or take room. */
  get hasElastic(): boolean {
    return [...this.#running.values()].some(({ elastic }) => elastic !== undefined);
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  waitingOfOwner(owner: string): number {
    return this.#byOwner.get(owner) ?? 0;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  /** The sum of what those that wait need, on one device each. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  add(job: WaitingJob): void {
    this.#waiting.add(job);
    this.#index(job);
    this.#countOwner(job, 1);
    this.#waitingBytes += job.bytes;
    this.#reasonsChanged();
  }

  remove(id: string): void {
    const job = this.#waiting.get(id);
    if (job === undefined) return;
    this.#waitingBytes -= job.bytes;
    this.#countOwner(job, -1);
    const { workloadKey: key = '' } = job;
    const alike = this.#byWorkload.get(key);
    alike?.delete(id);
    if (alike?.size === 0) this.#byWorkload.delete(key);
    this.#waiting.remove(id);
    this.#reasonsChanged();
  }

  expired(nowMs: number): readonly WaitingJob[] {
    return this.#waiting.expired(nowMs);
  }

  run(job: RunningJob): void {
    this.remove(job.id);
    this.#running.set(job.id, job);
  }

  /** What is known of one that runs, changed. */
  change(id: string, parts: Partial<Pick<RunningJob, 'reservation' | 'elastic'>>): void {
    const job = this.#running.get(id);
    if (job !== undefined) this.#running.set(id, { ...job, ...parts });
  }

  running(id: string): RunningJob | undefined {
    return this.#running.get(id);
  }

  end(id: string): void {
    this.#running.delete(id);
    this.#reasons = undefined;
  }

  /** Whether it waits for its estimate. */
  isEstimating(id: string): boolean {
    return this.#waiting.get(id)?.estimating === true;
  }

  /** Whether anybody waits whose need would change with what was learnt of a workload. */
  hasAlike(workloadKey: string): boolean {
    return this.#byWorkload.has(workloadKey);
  }

  renew(workloadKey: string, need: Omit<Need, 'gpus'>, expectedSeconds: Known<number>): void {
    for (const id of this.#byWorkload.get(workloadKey) ?? []) {
      this.#waitingBytes += need.bytes - (this.#waiting.get(id)?.bytes ?? 0);
      this.#waiting.change(id, { ...need, alone: false, estimating: false, expectedSeconds });
    }
    this.#reasons = undefined;
  }

  /** Which jobs start now, and where. */
  admit(rooms: readonly DeviceRoom[], nowMs: number): Admission {
    this.#rooms = rooms;
    const admission = admit(this.#state(rooms, nowMs, this.#startable(rooms)), this.#settings);
    this.#holds = admission.holds;
    return admission;
  }

  /** What there is to say of a job that waits. */
  waitingOf(
    id: string,
    rooms: () => readonly DeviceRoom[],
    time: Pick<QueueClock, 'nowMs' | 'toEpochMs'>,
  ): Waiting | null {
    const job = this.#waiting.get(id);
    if (job === undefined) return null;
    const nowMs = time.nowMs();
    const dateOf = (queueMs: number) => new Date(time.toEpochMs(queueMs)).toISOString();
    if (this.#reasons === undefined || nowMs - this.#reasons.atMs >= reasonsMs) {
      const now = rooms();
      const state = this.#state(now, nowMs, this.#ordered(now));
      const reasons = explainWaiting(state, this.#settings);
      this.#reasons = {
        atMs: nowMs,
        of: new Map(reasons.map((reason) => [reason.id, reason])),
        positions: new Map(
          placesOf(state.waiting, now).map((place) => [place.job.id, place.position]),
        ),
      };
    }
    const position = this.#reasons.positions.get(id) ?? this.#waiting.position(id) ?? 0;
    const status = this.#reasons.of.get(id);
    const order = status?.order ?? null;
    const reason = status?.reason ?? { code: 'jobs-ahead' as const, jobs: position - 1 };
    return {
      position,
      why: waitingReasonWords(reason),
      whyDetails: reason,
      order: order === null ? '' : orderReasonWords(order),
      orderDetails: order,
      expectedStartAt:
        status !== undefined && isKnown(status.expectedStartMs)
          ? dateOf(status.expectedStartMs)
          : 'unknown',
      expiresAt: job.deadlineMs === undefined ? null : dateOf(job.deadlineMs),
    };
  }

  /** The first so many in the order in which they are looked at. */
  first(most: number): readonly WaitingJob[] {
    return this.#ordered(this.#rooms).slice(0, most);
  }

  /** Many jobs that cannot start, of one owner who has all that he may have, must not hide others. */
  #startable(rooms: readonly DeviceRoom[]): readonly WaitingJob[] {
    const { quotaOf } = this.#settings;
    const shares = quotaOf && new Shares([...this.#running.values()], quotaOf);
    return this.#ordered(rooms, (job) => {
      if (job.estimating === true) return false;
      return shares?.waitsFor(job, candidates(rooms, job).count) === undefined;
    });
  }

  #ordered(
    rooms: readonly DeviceRoom[],
    isWanted?: (job: WaitingJob) => boolean,
  ): readonly WaitingJob[] {
    const waiting = this.#waiting.first(lookedAt, isWanted).map((job) => askingNow(job, rooms));
    return inOrder(waiting, [...this.#running.values()], rooms);
  }

  #state(rooms: readonly DeviceRoom[], nowMs: number, waiting: readonly WaitingJob[]): QueueState {
    return {
      waiting,
      running: [...this.#running.values()].map((job) => asExpected(job, nowMs)),
      rooms,
      holds: this.#holds,
      nowMs,
    };
  }

  /** In a long queue one more or less changes little: what is told of it may be a moment old. */
  #reasonsChanged(): void {
    if (this.#waiting.size <= shortQueue) this.#reasons = undefined;
  }

  #countOwner({ owner }: WaitingJob, by: 1 | -1): void {
    if (owner === undefined) return;
    const count = this.waitingOfOwner(owner) + by;
    if (count === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, count);
  }

  #index({ id, workloadKey, basis }: WaitingJob): void {
    if (workloadKey === undefined || basis === 'stated') return;
    const alike = this.#byWorkload.get(workloadKey);
    if (alike === undefined) this.#byWorkload.set(workloadKey, new Set([id]));
    else alike.add(id);
  }
}

/** One that runs longer than any before it tells nothing of its end. */
function asExpected(job: RunningJob, nowMs: number): RunningJob {
  const isLate = isKnown(job.expectedEndMs) && job.expectedEndMs <= nowMs;
  return isLate ? { ...job, expectedEndMs: 'unknown' } : job;
}

/**
 * The time by which jobs wait. It begins as milliseconds since 1970 and then only counts what has
 * passed: a clock that is set, by a person or over the network, moves no turn and ends no waiting.
 * A restart of the daemon changes nothing as long as the machine runs. Over a restart of the machine
 * only its own clock can tell how long it was off: that is counted, from the last mark on.
 */
export class QueueClock {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #startSeconds: number;

  constructor(clock: Clock, kept: ClockMark | undefined) {
    this.#clock = clock;
    this.#startSeconds = clock.seconds();
    this.#startMs = resumedMs(kept, { ...uptimeOf(clock), epochMs: clock.epochMs() });
  }

  nowMs(): number {
    return Math.round(this.#startMs + (this.#clock.seconds() - this.#startSeconds) * 1000);
  }

  /** A moment of the queue as a date for people. */
  toEpochMs(queueMs: number): number {
    return this.#clock.epochMs() + queueMs - this.nowMs();
  }

  mark(): ClockMark {
    const { nowMs, epochMs } = { nowMs: this.nowMs(), epochMs: this.#clock.epochMs() };
    return { ...uptimeOf(this.#clock), queueMs: nowMs, epochMs };
  }
}

function uptimeOf(clock: Clock): Pick<ClockMark, 'boot' | 'upMs'> {
  const { boot, seconds } = clock.uptime?.() ?? { boot: '', seconds: 0 };
  return { boot, upMs: Math.round(seconds * 1000) };
}

/** Where the queue's time goes on. */
export function resumedMs(kept: ClockMark | undefined, now: Omit<ClockMark, 'queueMs'>): number {
  if (kept === undefined) return now.epochMs;
  const isSameBoot = now.boot !== '' && now.boot === kept.boot && now.upMs >= kept.upMs;
  const passedMs = isSameBoot ? now.upMs - kept.upMs : now.epochMs - kept.epochMs;
  return kept.queueMs + Math.max(0, passedMs);
}

/**
 * Why a job is behind the one before it, in words.
 *
 * @example
 * orderReasonWords({ code: 'larger', jobId: '7' });
 * // 'Job 7 is before it, as it needs more memory: a gap for it is rare.'
 */
export function orderReasonWords(reason: OrderReason): string {
  const before = `Job ${reason.jobId} is before it`;
  switch (reason.code) {
    case 'priority':
      return `${before}, as its priority is higher (${reason.priority}, here ${reason.ownPriority}).`;
    case 'earlier':
      return reason.seconds < 1
        ? `${before}, as it was submitted earlier.`
        : `${before}, as it was submitted ${formatSeconds(reason.seconds)} earlier.`;
    case 'larger':
      return `${before}, as it needs more memory: a gap for it is rare.`;
    case 'longer':
      return `${before}, as it is expected to run longer.`;
    case 'first-of-workload':
      return `${before}, as it is the first of its workload: what it measures tells the need of the others.`;
    default:
      return reason satisfies never;
  }
}

/** A job with a whole device for its first run waits until at least this share of a device is not used by others. */
const leastShare = 0.5;

/**
 * A waiting job with the bytes that it asks for now. One whose need is unknown asks for all that a
 * device could give if none of our jobs ran there, so it starts when none does, and gets all of it.
 */
export function askingNow(job: WaitingJob, rooms: readonly DeviceRoom[]): WaitingJob {
  if (job.alone !== true) return job;
  const offer = (share: number) =>
    largestOffer(
      rooms.map(({ id, loadLineBytes, otherProcessesBytes }) => {
        const reachable = loadLineBytes - (isKnown(otherProcessesBytes) ? otherProcessesBytes : 0);
        return { id, loadLineBytes: Math.max(reachable, loadLineBytes * share) };
      }),
      job,
    );
  const bytes = offer(leastShare);
  return bytes === undefined ? job : { ...job, bytes: Math.max(1, Math.floor(bytes)) };
}
