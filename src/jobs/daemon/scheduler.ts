import { randomInt } from 'node:crypto';
import { Failure } from '../../failure.js';
import type { LimitedEntry } from '../../run/store/journal-entry.js';
import { jobRunId } from '../../run/store/run-folder.js';
import type { Clock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import { runningFrom } from '../admission.js';
import { expectedSeconds } from '../corrections.js';
import type { Resize } from '../elastic.js';
import { largestOffer } from '../fit-verdict.js';
import type { Ledger } from '../ledger.js';
import type { EndReason } from '../reasons/types.js';
import type { JobStore } from '../store/job-store.js';
import { type EstimatedJob, type NewJob, type StoredJob, unknownJob } from '../store/records.js';
import {
  type ElasticRun,
  hasEnded,
  type JobState,
  ownerName,
  type Reservation,
  type WaitingJob,
} from '../types.js';
import type { DaemonOptions } from './options.js';
import { JobRunner, type JobRunnerOptions } from './running/job-runner.js';
import type { RunningEntry } from './running/running-jobs.js';
import { Signal } from './signal.js';
import { JobQueue, QueueClock } from './submission/job-queue.js';
import { estimateOf, judgeNeed } from './submission/need.js';

/** The queue must not grow without end; 100,000 fit into some 100 MB. */
const maxWaiting = 100_000;
/** One of many people must not fill it. */
const maxWaitingOfOne = 10_000;
/** What is kept of what is over: as many as a page of history can want. */
const defaultKeep = { endedJobs: 10_000, events: 100_000, runs: 1000 };
const pruneSeconds = 600;
/** How much of a jump of the date can count as waiting when the machine is restarted. */
const keepClockSeconds = 60;
/** Between two looks at what must happen by itself: deadlines, a disk that has room again. */
const tickSeconds = 1;
/** A busy machine may be late by seconds, not by this. */
const stillSeconds = 30;

export interface SchedulerOptions
  extends Omit<JobRunnerOptions, 'store'>,
    Pick<DaemonOptions, 'policy' | 'variables' | 'keep' | 'quotaOf'> {
  readonly store: JobStore;
  /** Whether a device is not there, but simulated. */
  readonly isSimulated?: (deviceId: string) => boolean;
  readonly ledger: Ledger;
}

/** Who waits, who runs, who is done: every change of it is in the store before it takes effect. */
export class Scheduler {
  readonly queue: JobQueue;
  readonly runner: JobRunner;
  /** Something is in the store that was not. */
  readonly changed = new Signal();
  /** A job began or ended: what devices hold is about to change. */
  readonly startedOrEnded = new Signal();
  readonly counts: Record<JobState, number>;
  readonly time: QueueClock;
  readonly #options: SchedulerOptions;
  readonly #store: JobStore;
  readonly #clock: Clock;
  #isAdmitting = false;
  #prunedAt: number;
  #tickedAt: number;
  #keptClockAt: number;
  #lastId: number;

  constructor(options: SchedulerOptions) {
    const { store, clock, policy, variables, quotaOf } = options;
    this.#options = options;
    this.#store = store;
    this.#clock = clock;
    this.#prunedAt = clock.seconds();
    this.#tickedAt = clock.seconds();
    this.#keptClockAt = clock.seconds();
    this.time = new QueueClock(clock, store.clockMark());
    this.keepClock();
    this.counts = countsOf(store);
    this.#lastId = store.lastId();
    const maxRunning = variables?.maxRunning;
    this.queue = new JobQueue(store.waiting(), { policy, maxRunning, quotaOf });
    this.runner = new JobRunner(options);
    this.runner.changed.listen(() => this.changed.emit());
    this.runner.attempted.listen((entry) => this.#learn(entry));
    this.runner.limited.listen(({ entry, news }) => this.#limited(entry, news));
    this.runner.ended.listen(({ entry, state }) => this.#ended(entry, state));
  }

  /** Takes up the jobs that ran when the last daemon ended. */
  takeUp(): void {
    const nowMs = this.time.nowMs();
    // A start is kept as a date: where that lies ahead, the clock was set back.
    const startedAt = (ms: number) => nowMs - Math.max(0, this.#clock.epochMs() - ms);
    for (const stored of this.#store.jobs(['running'])) {
      const { job, runId, turn, startedMs = this.#clock.epochMs() } = stored;
      if (job.reservation === null || runId === undefined) continue;
      this.#options.ledger.restore(job.id, job.reservation);
      const seconds = expectedSeconds(this.#store.runsOf(stored.workloadKey));
      this.queue.run({
        id: job.id,
        owner: job.owner,
        turn,
        reservation: job.reservation,
        expectedEndMs: isKnown(seconds) ? startedAt(startedMs) + seconds * 1000 : 'unknown',
        workloadKey: stored.workloadKey,
        priority: job.priority,
        elastic: elasticOf(stored),
      });
      this.runner.run(stored, job.reservation, runId);
    }
  }

  /** What must happen by itself, until the daemon closes. */
  async tick(): Promise<void> {
    const { signal } = this.#options;
    for (;;) {
      await this.#clock.waitUntil(this.#clock.seconds() + tickSeconds, signal);
      if (signal.aborted) return;
      if (this.#store.trouble !== undefined) this.#ifStorable(() => this.#store.probe());
      this.#ifStorable(() => this.#expire());
      this.#tickedAt = this.#clock.seconds();
      this.runner.tryAgain();
      if (this.#clock.seconds() - this.#keptClockAt >= keepClockSeconds) this.keepClock();
      const isDue = this.#clock.seconds() - this.#prunedAt >= pruneSeconds;
      if (isDue) this.#ifStorable(() => this.#prune());
    }
  }

  /** For the next daemon: it goes on from there. */
  keepClock(): void {
    this.#keptClockAt = this.#clock.seconds();
    this.#ifStorable(() => {
      this.#store.keepClock(this.time.mark());
      this.#store.keepReserve();
    });
  }

  /** Whether it still decides and can write. */
  health(): { readonly ok: boolean; readonly why: string } {
    const { trouble } = this.#store;
    if (trouble !== undefined) return { ok: false, why: trouble.fact };
    const still = this.#clock.seconds() - this.#tickedAt;
    return still < stillSeconds
      ? { ok: true, why: '' }
      : { ok: false, why: `The scheduler has not run for ${Math.round(still)} s.` };
  }

  checkRoom(owner: string): void {
    const isFull = this.queue.waitingCount >= maxWaiting;
    const hasMany = owner !== ownerName && this.queue.waitingOfOwner(owner) >= maxWaitingOfOne;
    if (!isFull && !hasMany) return;
    throw new Failure({
      kind: 'missing',
      code: 'queue-full',
      fact: `${isFull ? `${maxWaiting} jobs` : `${maxWaitingOfOne} jobs of ${owner}`} wait already.`,
      next: 'Wait until some have run, or cancel some.',
    });
  }

  submit(job: NewJob): StoredJob {
    this.checkRoom(job.owner);
    const stored = this.#store.submit(job, this.#clock.epochMs(), this.time.nowMs());
    const { state, id } = stored.job;
    // Sent again, it is the job that is there: its folder is its own.
    if (Number(id) > this.#lastId) {
      this.#lastId = Number(id);
      this.#options.files.giveId(id, this.#clock.epochMs());
    }
    this.counts[state]++;
    if (state === 'waiting') this.#wait(stored);
    this.changed.emit();
    return stored;
  }

  /** A job that waited for its estimate has one: from now on it may start, unless it is refused. */
  estimated(id: string, found: EstimatedJob): void {
    const { state } = this.#store.estimated(id, found, this.#clock.epochMs()).job;
    this.queue.remove(id);
    if (state === 'waiting') this.#wait(this.requireJob(id));
    else {
      this.counts.waiting--;
      this.counts[state]++;
    }
    this.changed.emit();
    this.admitSoon();
  }

  #wait(stored: StoredJob): void {
    const { turn, need, deadlineMs, workloadKey, alone, estimating, details } = stored;
    const seconds = expectedSeconds(this.#store.runsOf(workloadKey));
    const { id, owner, priority } = stored.job;
    const waiting = { id, owner, turn, priority, ...need, deadlineMs, workloadKey, alone };
    const leastBytes = details.elastic?.foundBytes;
    this.queue.add({ ...waiting, estimating, expectedSeconds: seconds, leastBytes });
    this.admitSoon();
  }

  cancel(id: string): void {
    const { state } = this.requireJob(id).job;
    if (hasEnded(state)) {
      throw new Failure({
        kind: 'input',
        code: 'job-has-ended',
        fact: `Job ${id} has ended: it is ${state}.`,
        next: 'There is nothing to cancel.',
      });
    }
    const entry = this.runner.running.get(id);
    if (entry !== undefined)
      this.runner.end(entry, {
        state: 'cancelled',
        reason: { code: 'cancelled', during: 'running' },
      });
    else this.#endWaiting(id, 'cancelled', { code: 'cancelled', during: 'waiting' });
  }

  /**
   * Moves the limit of a job that runs. More is reserved first, and only then allowed; less is reserved
   * once the program keeps to it.
   */
  limit(id: string, bytes: number): void {
    const { job } = this.requireJob(id);
    const entry = this.runner.running.get(id);
    if (entry === undefined || job.state !== 'running') throw notRunning(id, job.state);
    if (!this.#options.ledger.resize(id, Math.max(bytes, entry.reservation.bytes))) {
      throw noRoom(id, bytes, this.#availableFor(entry));
    }
    // What moved by itself before stays where a person puts it.
    const elastic = this.queue.running(id)?.elastic;
    const settled = elastic && { ...elastic, needBytes: bytes, askedBytes: undefined };
    this.queue.change(id, { elastic: settled });
    if (bytes >= entry.reservation.bytes) this.#reserve(entry, bytes, true);
    this.#ask(entry, bytes, true);
  }

  /** Asked of the program; of a lower limit the reservation waits for the answer. */
  #ask(entry: RunningEntry, bytes: number, byPerson: boolean): void {
    entry.limit = { askedBytes: bytes, state: 'asked', why: '', byPerson };
    entry.run?.limit(bytes);
    this.changed.emit();
  }

  /** In the store before anything else, so that a crash leaves no promise without its record. */
  #reserve(entry: RunningEntry, bytes: number, byPerson: boolean): void {
    const { ledger, files } = this.#options;
    const { id, reservation } = entry;
    try {
      this.#store.resize(id, { bytes, byPerson }, this.#clock.epochMs());
    } catch (error) {
      ledger.resize(id, reservation.bytes);
      throw error;
    }
    ledger.resize(id, bytes);
    entry.reservation = { ...reservation, bytes };
    this.queue.change(id, { reservation: entry.reservation });
    files.keepRecord(id, () => this.#store.record(id));
    this.changed.emit();
  }

  /** The most that a job could have where it is. */
  #availableFor({ reservation }: RunningEntry): number {
    const free = this.#options.ledger
      .rooms()
      .filter(({ id }) => reservation.devices.includes(id))
      .map(({ freeBytes }) => freeBytes);
    return reservation.bytes + Math.min(...free);
  }

  /** The program keeps a limit from now on: what it gave back is free for others. */
  #limited(entry: RunningEntry, { bytes, why }: LimitedEntry): void {
    const { limit, id } = entry;
    // Another daemon asked for it; its number stands in the file of the run.
    const asked = limit?.askedBytes ?? entry.run?.limitAsked()?.bytes;
    const byPerson = limit?.byPerson ?? false;
    if (asked === undefined || bytes === 'none') {
      entry.limit = limit && { ...limit, state: 'kept', why };
      return;
    }
    if (bytes < entry.reservation.bytes) this.#reserve(entry, bytes, byPerson);
    // It cannot do with less than it answered: it is not asked for that again.
    const { elastic } = this.queue.running(id) ?? {};
    if (elastic !== undefined) {
      const leastBytes = bytes > asked ? Math.max(elastic.leastBytes, bytes) : elastic.leastBytes;
      this.queue.change(id, { elastic: { ...elastic, leastBytes, askedBytes: undefined } });
    }
    entry.limit = { askedBytes: asked, state: bytes > asked ? 'kept' : 'set', why, byPerson };
    this.changed.emit();
    // What was freed shows in a reading of the device.
    this.startedOrEnded.emit();
    this.admitSoon();
  }

  /** Limits of elastic jobs, as the queue wants them. */
  #resize({ jobId, bytes }: Resize): void {
    const entry = this.runner.running.get(jobId);
    const elastic = this.queue.running(jobId)?.elastic;
    if (entry === undefined || elastic === undefined || entry.ending !== undefined) return;
    if (bytes < entry.reservation.bytes) {
      if (elastic.askedBytes === bytes) return;
      this.queue.change(jobId, { elastic: { ...elastic, askedBytes: bytes } });
    } else {
      if (!this.#options.ledger.resize(jobId, bytes)) return;
      this.#reserve(entry, bytes, false);
    }
    this.#ask(entry, bytes, false);
  }

  requireJob(id: string): StoredJob {
    const stored = this.#store.job(id);
    if (stored === undefined) throw unknownJob(id);
    return stored;
  }

  /** There may be room: looks soon, and once for all that happens at the same time. */
  admitSoon(): void {
    const hasWork = this.queue.waitingCount > 0 || this.queue.hasElastic;
    if (this.#isAdmitting || !hasWork) return;
    this.#isAdmitting = true;
    setImmediate(() => {
      this.#isAdmitting = false;
      if (!this.#options.signal.aborted) this.#ifStorable(() => this.#admit());
    });
  }

  #admit(): void {
    const { ledger } = this.#options;
    const { starts, resizes } = this.queue.admit(ledger.rooms(), this.time.nowMs());
    for (const resize of resizes) this.#resize(resize);
    if (starts.length === 0) return;
    try {
      for (const { job, reservation } of starts) this.#start(job, this.#labelled(reservation));
    } finally {
      this.startedOrEnded.emit();
      this.changed.emit();
    }
  }

  /** A reservation of devices that are not there says so. */
  #labelled(reservation: Reservation): Reservation {
    const { isSimulated } = this.#options;
    const simulated = reservation.devices.some((id) => isSimulated?.(id) === true);
    return simulated ? { ...reservation, simulated } : reservation;
  }

  #start(job: WaitingJob, reservation: Reservation): void {
    const { ledger } = this.#options;
    if (!ledger.reserve(job.id, reservation)) return;
    const atMs = this.#clock.epochMs();
    const runId = jobRunId(atMs, job.id, () => randomInt(0x1_0000) / 0x1_0000);
    let stored: StoredJob;
    try {
      stored = this.#store.start(job.id, { reservation, runId, atMs });
    } catch (error) {
      // What was not written did not happen: it goes on waiting.
      ledger.release(job.id, this.#clock.seconds());
      throw error;
    }
    this.#options.files.keepRecord(job.id, () => this.#store.record(job.id));
    this.counts.waiting--;
    this.counts.running++;
    this.queue.run(runningFrom(job, reservation, this.time.nowMs()));
    this.runner.run(stored, reservation, runId);
  }

  #ended({ id }: RunningEntry, state: JobState): void {
    this.counts.running--;
    this.counts[state]++;
    this.queue.end(id);
    // Room is given again when a reading shows that it came back.
    this.#options.ledger.release(id, this.#clock.seconds());
    this.startedOrEnded.emit();
  }

  /** What an attempt measured counts for those that wait with the same workload. */
  #learn({ id, workloadKey, reservation }: RunningEntry): void {
    if (!this.queue.hasAlike(workloadKey)) return;
    const { need: before, details } = this.requireJob(id);
    const { gpus } = before;
    const offerBytes = largestOffer(this.#options.ledger.rooms(), { gpus }) ?? reservation.bytes;
    const runs = this.#store.runsOf(workloadKey);
    // Its estimate alone tells the others nothing.
    if (runs.length === 0) return;
    const estimatedBytes = estimateOf(details.evidence);
    const facts = { gpus, statedBytes: undefined, estimatedBytes, runs, offerBytes };
    const { need, evidence, alone } = judgeNeed(facts);
    if (alone || need.bytes > offerBytes) return;
    this.#store.renewNeed(workloadKey, { ...need, evidence });
    this.queue.renew(workloadKey, need, expectedSeconds(runs));
  }

  #endWaiting(id: string, state: 'cancelled' | 'expired', reason: EndReason): void {
    this.#store.end(id, state, reason, this.#clock.epochMs());
    this.queue.remove(id);
    this.counts.waiting--;
    this.counts[state]++;
    this.changed.emit();
    this.admitSoon();
  }

  #expire(): void {
    for (const { id } of this.queue.expired(this.time.nowMs())) {
      this.#endWaiting(id, 'expired', { code: 'expired' });
    }
  }

  #prune(): void {
    const { keep = defaultKeep, files, engine } = this.#options;
    this.#prunedAt = this.#clock.seconds();
    const runs = Math.min(keep.runs, keep.endedJobs);
    // Files first: what is still in the store can be removed again after a crash. Runs go sooner than
    // the rest, for they may hold snapshots of what was in memory.
    this.#store.endedBeyond(runs).forEach(({ id, runId }, index) => {
      if (runId !== undefined) engine.forget(runId);
      if (index >= keep.endedJobs - runs) files.remove(id);
    });
    this.#store.prune(keep);
    Object.assign(this.counts, countsOf(this.#store));
  }

  /** A store that cannot be written now is tried again at the next occasion; what runs goes on. */
  #ifStorable(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
    }
  }
}

/** A running job that may move by itself, as its details say. */
function elasticOf({ need, details }: StoredJob): ElasticRun | undefined {
  const leastBytes = details.elastic?.foundBytes;
  if (leastBytes === undefined) return undefined;
  return { needBytes: details.limitBytes ?? need.bytes, leastBytes };
}

function notRunning(id: string, state: JobState): Failure {
  const hasOver = hasEnded(state);
  return new Failure({
    kind: 'input',
    code: hasOver ? 'job-has-ended' : 'job-not-running',
    fact: `Job ${id} is ${state}: only a job that runs has a limit that can move.`,
    next: hasOver
      ? 'There is nothing to limit.'
      : 'Wait until it runs, or submit it again with less.',
  });
}

function noRoom(id: string, bytes: number, maxBytes: number): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-room',
    fact: `Job ${id} cannot have ${formatBytes(bytes)}: with what is free it has ${formatBytes(maxBytes)} at most.`,
    next: 'Ask for less, or wait until another job ends.',
  });
}

function countsOf(store: JobStore): Record<JobState, number> {
  const counts = store.counts();
  const of = (state: JobState) => counts.get(state) ?? 0;
  return {
    waiting: of('waiting'),
    running: of('running'),
    succeeded: of('succeeded'),
    failed: of('failed'),
    cancelled: of('cancelled'),
    refused: of('refused'),
    expired: of('expired'),
  };
}
