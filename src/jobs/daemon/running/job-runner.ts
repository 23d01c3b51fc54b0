import { constants } from 'node:os';
import type { Engine, RunNews, RunOrder } from '../../../engine/types.js';
import { Failure } from '../../../failure.js';
import { changesOf } from '../../../plan/environment/job-environment.js';
import type { LimitedEntry } from '../../../run/store/journal-entry.js';
import type { Attempt } from '../../../run/types.js';
import type { Clock } from '../../../time/clock.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { EndReason, JobReason, ProgramEnd } from '../../reasons/types.js';
import { reasonWords } from '../../reasons/words.js';
import type { JobStore } from '../../store/job-store.js';
import type { Ending, StoredJob } from '../../store/records.js';
import { isOfStore } from '../../store/store-failures.js';
import type { JobState, Reservation } from '../../types.js';
import { Signal } from '../signal.js';
import { JobSeries } from '../views/job-series.js';
import { usedTogether } from '../views/job-views.js';
import type { JobFiles } from './job-files.js';
import { judgeUse, type RunningEntry, RunningJobs, runningEntry } from './running-jobs.js';

/** A job of a week must not lose its curve when the daemon is killed. */
const saveSeriesSeconds = 60;

export interface JobRunnerOptions {
  readonly store: Pick<JobStore, 'addAttempt' | 'end' | 'endSoon' | 'note'>;
  readonly engine: Engine;
  readonly files: JobFiles;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Where jobs run that name no folder. */
  readonly folder: string;
  readonly contextBytes: (device: string) => number;
}

/** Looks after the jobs that run: what happens to their runs goes into the store. */
export class JobRunner {
  readonly running = new RunningJobs();
  /** Something is in the store that was not. */
  readonly changed = new Signal();
  /** What an attempt measured is in the store. */
  readonly attempted = new Signal<RunningEntry>();
  /** The program answered the limit that was asked for last. */
  readonly limited = new Signal<{ readonly entry: RunningEntry; readonly news: LimitedEntry }>();
  readonly ended = new Signal<{ readonly entry: RunningEntry; readonly state: JobState }>();
  readonly #options: JobRunnerOptions;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
  }

  /** Begins a job whose start is in the store, or takes up one that a daemon before us began. */
  run(stored: StoredJob, reservation: Reservation, runId: string): void {
    const { engine, files, clock, folder, contextBytes } = this.#options;
    const { id } = stored.job;
    const series = new JobSeries(files.readHistory(id));
    const entry = runningEntry(stored, { reservation, runId }, series);
    entry.savedAt = clock.seconds();
    this.running.add(entry);
    const atMs = stored.startedMs ?? clock.epochMs();
    const log = files.log(id);
    const order = runOrder({ stored, reservation, runId, atMs, folder, log, contextBytes });
    entry.run = engine.openRun(order, (news) => {
      entry.inbox.push(news);
      this.#readInbox(entry);
    });
    if (entry.ending !== undefined) entry.run.stop();
  }

  /**
   * Ends a job: decided first, then done, so that a crash in between does not undo it. Where nothing
   * can be written, it is ended all the same: it may be the one that fills the disk.
   */
  end(entry: RunningEntry, ending: Ending): void {
    const { store, clock, files } = this.#options;
    try {
      entry.ending = store.endSoon(entry.id, ending, clock.epochMs()).ending;
    } catch (error) {
      if (!(error instanceof Failure && isOfStore(error))) throw error;
      entry.ending ??= ending;
    }
    files.say(entry.id, reasonWords(ending.reason));
    entry.run?.stop();
    this.changed.emit();
  }

  /** What could not be kept when it happened may be kept now. */
  tryAgain(): void {
    for (const entry of this.running.all()) if (entry.inbox.length > 0) this.#readInbox(entry);
  }

  /** What each job holds, by device. */
  sawUse(use: ReadonlyMap<string, ReadonlyMap<string, Known<number>>>): void {
    const { clock } = this.#options;
    for (const [id, byDevice] of use) {
      const entry = this.running.get(id);
      if (entry === undefined) continue;
      entry.usedBytes = usedTogether(byDevice);
      entry.series.add(clock.epochMs(), isKnown(entry.usedBytes) ? entry.usedBytes : null);
      if (clock.seconds() - entry.savedAt >= saveSeriesSeconds) this.#saveSeries(entry);
      if (entry.ending === undefined) this.#enforceReservation(entry, byDevice);
    }
  }

  saveAll(): void {
    for (const entry of this.running.all()) this.#saveSeries(entry);
  }

  #readInbox(entry: RunningEntry): void {
    try {
      for (let news = entry.inbox[0]; news !== undefined; news = entry.inbox[0]) {
        if (this.#options.signal.aborted) return;
        this.#take(entry, news);
        entry.inbox.shift();
      }
    } catch (error) {
      // The disk is full: it stays in the inbox, in its order, and is tried again.
      if (!(error instanceof Failure)) throw error;
    }
    this.changed.emit();
  }

  #take(entry: RunningEntry, news: RunNews): void {
    const { store, clock, contextBytes } = this.#options;
    switch (news.type) {
      case 'started': {
        const { number, settings, at: startedAt } = news;
        entry.currentAttempt = { number, settings, startedAt, rungs: [] };
        return;
      }
      case 'climbed':
        if (entry.currentAttempt?.number !== news.number) return;
        entry.currentAttempt = {
          ...entry.currentAttempt,
          rungs: [...entry.currentAttempt.rungs, news.rung],
        };
        return;
      case 'limited':
        // An answer to an earlier order says nothing of the limit that is asked for now.
        if (news.order === entry.run?.limitAsked()?.order) this.limited.emit({ entry, news });
        return;
      case 'stopped':
        entry.wasStopped = true;
        return;
      case 'ended': {
        const { attempt } = news;
        store.addAttempt(entry.id, attempt, clock.epochMs(), contextBytes(attempt.settings.device));
        entry.attempts.push(attempt);
        entry.currentAttempt = null;
        this.attempted.emit(entry);
        return;
      }
      case 'finished':
      case 'lost': {
        const { state, reason } = endOf({ news, ...entry });
        // It may have ended while no daemon was there to see it.
        const endedMs = news.type === 'finished' ? Date.parse(news.at) : Number.NaN;
        store.end(entry.id, state, reason, Number.isFinite(endedMs) ? endedMs : clock.epochMs());
        this.#saveSeries(entry);
        this.running.remove(entry);
        this.ended.emit({ entry, state });
      }
    }
  }

  #enforceReservation(entry: RunningEntry, byDevice: ReadonlyMap<string, Known<number>>): void {
    const { store, clock, files } = this.#options;
    const known = [...byDevice.values()].filter(isKnown);
    const judged = judgeUse({
      usedBytes: known.length === 0 ? 'unknown' : Math.max(...known),
      promisedBytes: entry.reservation.bytes,
      alone: entry.alone,
      nowSeconds: clock.seconds(),
      over: entry.over,
    });
    try {
      if (judged.verdict === 'warn') {
        store.note(entry.id, { note: judged.warning }, clock.epochMs());
        files.say(entry.id, reasonWords(judged.warning));
        this.changed.emit();
      }
      if (judged.verdict === 'end') this.end(entry, { state: 'failed', reason: judged.reason });
      entry.over = judged.verdict === 'fine' ? undefined : judged.over;
    } catch (error) {
      // Not written, so not said: the next reading says it.
      if (!(error instanceof Failure)) throw error;
    }
  }

  #saveSeries(entry: RunningEntry): void {
    const { clock, files } = this.#options;
    entry.savedAt = clock.seconds();
    files.writeHistory(entry.id, entry.series.read());
  }
}

/** How often a job is tried; the same as `plimsoll run`. */
const maxAttempts = 8;

/** What is to be run for a job on the devices that it was given. */
export function runOrder(options: {
  readonly stored: StoredJob;
  readonly runId: string;
  readonly reservation: Reservation;
  readonly atMs: number;
  /** Where it runs unless it says. */
  readonly folder: string;
  readonly log: string;
  /** What a CUDA context takes of the device before the program has anything. */
  readonly contextBytes: (device: string) => number;
}): RunOrder {
  const { stored, reservation, atMs, folder, log } = options;
  const { job, details } = stored;
  const [device = 'host'] = reservation.devices;
  const { settings: degraded, workload } = details;
  const precision = degraded?.precision ?? workload?.['precision'];
  return {
    schema: 1,
    id: options.runId,
    command: job.command,
    folder: details.cwd ?? folder,
    createdAt: new Date(atMs).toISOString(),
    settings: {
      batch_size: degraded?.batch ?? details.batch ?? 'unknown',
      accumulation: degraded?.accumulation ?? 1,
      checkpointing: degraded?.checkpointing ?? workload?.['checkpointing'] === true,
      precision: typeof precision === 'string' ? precision : 'fp32',
      offload: false,
      device,
      ...(reservation.simulated === true && { simulated_device: true }),
    },
    // One with a whole device for its first run may take what is there.
    memoryBytes: device !== 'host' && stored.alone ? null : reservation.bytes,
    contextBytes: options.contextBytes(device),
    maxAttempts,
    pinnedDevice: true,
    devices: reservation.devices,
    reports: [],
    log,
    environment: details.env ?? {},
    ...changesOf(details),
    account: details.account,
  };
}

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
