import { setMaxListeners } from 'node:events';
import { Failure } from '../../failure.js';
import { type Clock, systemClock } from '../../time/clock.js';
import type { Alert } from '../../watch/types.js';
import type { Ledger } from '../ledger.js';
import type { JobStore } from '../store/job-store.js';
import type { JobFilter, NewJob, StoredJob } from '../store/records.js';
import type { JobState } from '../types.js';
import { contextBytesOn } from './devices/context-bytes.js';
import { DeviceReadings } from './devices/device-readings.js';
import { deviceHistory, deviceStatus, deviceView } from './devices/device-views.js';
import { type ConcurrencyLimit, limitConcurrency } from './limit-concurrency.js';
import type { DaemonOptions } from './options.js';
import { environmentForJobs } from './running/inherited-environment.js';
import { JobFiles } from './running/job-files.js';
import { Scheduler } from './scheduler.js';
import { checkRequest, withOneBatch } from './submission/job-request.js';
import { newJobOf } from './submission/submission.js';
import type {
  Daemon,
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobHistory,
  JobRequest,
  JobSummary,
  JobView,
  LogAnswer,
  WorkersStatus,
} from './types.js';
import { jobSummary, jobView } from './views/job-views.js';
import { Publisher } from './views/publisher.js';

/** Each may start a process that traces a model; who knows the machine says how many it bears. */
const usualEstimatesAtOnce = 2;
const queueEventSeconds = 0.5;
/** All devices are read at the same tick: their samples come within this, and are told as one. */
const devicesEventSeconds = 0.03;
const firstOfQueue = 100;
/** What a chart of a day has room for. */
const keptAlerts = 500;
/** The processes of a host cost most of what watching costs; jobs are looked at more often. */
const defaultWatch = { intervalSeconds: 0.5, processIntervalSeconds: 5 };

export interface DaemonParts extends DaemonOptions {
  readonly store: JobStore;
  readonly ledger: Ledger;
  readonly takes: (deviceId: string) => boolean;
}

/** The daemon as the server sees it: takes requests in, and shows what there is. */
export class JobDaemon implements Daemon {
  readonly #parts: DaemonParts;
  readonly #clock: Clock;
  readonly #files: JobFiles;
  readonly #scheduler: Scheduler;
  readonly #readings: DeviceReadings;
  readonly #publisher: Publisher;
  readonly #withLimit: ConcurrencyLimit;
  readonly #closing = new AbortController();
  readonly #environment: Readonly<Record<string, string>>;
  readonly #alerts: Alert[] = [];
  readonly #ticking: Promise<void>;

  constructor(parts: DaemonParts) {
    const { store, discovery, clock = systemClock } = parts;
    const { signal } = this.#closing;
    // Every submit that is being estimated listens to it.
    setMaxListeners(0, signal);
    this.#parts = parts;
    this.#clock = clock;
    this.#withLimit = limitConcurrency(parts.estimatesAtOnce ?? usualEstimatesAtOnce);
    this.#files = new JobFiles(parts.home);
    this.#environment = environmentForJobs(parts.environment);
    this.#scheduler = new Scheduler({
      ...parts,
      clock,
      signal,
      files: this.#files,
      contextBytes: contextBytesOn(discovery, parts.gpus),
      onChange: () => this.#changed(),
      lookNow: () => this.#readings.lookNow(),
    });
    const { queue, runner } = this.#scheduler;
    this.#publisher = new Publisher({
      store,
      clock,
      signal,
      summaryOf: (id) => {
        const stored = store.job(id);
        return stored && this.#summary(stored);
      },
    });
    this.#readings = new DeviceReadings({
      ...parts,
      clock,
      watch: { ...defaultWatch, ...parts.watch },
      jobOf: (runId) => runner.running.ofRun(runId)?.id,
      runOf: (jobId) => runner.running.get(jobId)?.runId,
      onUse: (use) => runner.sawUse(use),
      onReading: () => this.#scheduler.admitSoon(),
      onSample: () => void this.#publisher.publishSoon(this.#devicesEvent, devicesEventSeconds),
      onAlert: (alert) => this.#sawAlert(alert),
    });
    this.#scheduler.takeUp();
    if (queue.runningCount > 0) this.#readings.lookNow();
    this.#ticking = this.#scheduler.tick();
  }

  async submit(request: JobRequest): Promise<JobView> {
    this.#requireOpen();
    const { store, folder, estimate, plan, variables } = this.#parts;
    const asked = withOneBatch(request);
    const { submission } = asked;
    const known = () => (submission === undefined ? undefined : store.submitted(submission));
    const before = known();
    if (before !== undefined) return this.#view(before);
    checkRequest(asked, { folder, environment: this.#environment });
    this.#scheduler.checkRoom();
    const nowMs = this.#clock.epochMs();
    const job = await newJobOf(asked, {
      lines: this.#parts.ledger.rooms(),
      runsOf: (key) => store.runsOf(key),
      estimate: estimate && ((workload, signal) => estimate(workload, signal, this.#withLimit)),
      plan: plan && ((workload, within, signal) => plan(workload, within, signal, this.#withLimit)),
      signal: this.#closing.signal,
      nowMs,
      waitSeconds: variables?.waitTimeoutSeconds,
    });
    this.#requireOpen();
    // Sent again while the first one was being estimated.
    return this.#view(known() ?? this.#scheduler.submit(this.#waitingFromNow(job, nowMs)));
  }

  async cancel(id: string): Promise<JobView> {
    this.#requireOpen();
    this.#scheduler.cancel(id);
    return await Promise.resolve(this.job(id));
  }

  job(id: string): JobView {
    return this.#view(this.#scheduler.requireJob(id));
  }

  jobs(filter: JobFilter): readonly JobSummary[] {
    return this.#parts.store.list(filter).map((stored) => this.#summary(stored));
  }

  counts(): Readonly<Record<JobState, number>> {
    return { ...this.#scheduler.counts };
  }

  async readLog(id: string, from: number, most: number): Promise<LogAnswer> {
    this.#scheduler.requireJob(id);
    return await this.#files.readLog(id, from, most);
  }

  jobHistory(id: string): JobHistory {
    const live = this.#scheduler.runner.running.get(id);
    if (live !== undefined) return live.series.read();
    this.#scheduler.requireJob(id);
    return this.#files.readHistory(id) ?? { epochMs: [], usedBytes: [] };
  }

  devices(): readonly DeviceView[] {
    const { ledger } = this.#parts;
    const rooms = new Map(ledger.rooms().map((room) => [room.id, room]));
    return this.#readings
      .states()
      .filter(({ present }) => present)
      .map((state) => {
        const { id } = state.info;
        return deviceView({
          state,
          room: rooms.get(id),
          entries: ledger.entries(id),
          nameOf: (jobId) => this.#scheduler.runner.running.get(jobId)?.name ?? '',
          takesJobs: rooms.has(id),
        });
      });
  }

  deviceHistory(id: string, windowSeconds: number, points: number): DeviceHistory {
    const state = this.#readings.states().find(({ info }) => info.id === id);
    if (state === undefined) {
      throw new Failure({
        kind: 'input',
        code: 'unknown-device',
        fact: `There is no device ${id.slice(0, 40)}.`,
        next: 'Run "plimsoll devices" to see them.',
      });
    }
    const alerts = this.#alerts.filter(({ deviceId }) => deviceId === id);
    return deviceHistory(state, windowSeconds, points, alerts);
  }

  status(): WorkersStatus {
    const { queue } = this.#scheduler;
    const devices = this.devices();
    return {
      activeJobs: queue.runningCount,
      waitingJobs: queue.waitingCount,
      reservedBytes: devices.reduce((sum, { reservedBytes }) => sum + reservedBytes, 0),
      waitingBytes: queue.waitingBytes,
      devices: devices.map(deviceStatus),
    };
  }

  eventsAfter(
    id: number,
    most: number,
  ): { events: readonly DaemonEvent[]; first: number; last: number } {
    return this.#publisher.eventsAfter(id, most);
  }

  listen(listener: (event: DaemonEvent) => void): () => void {
    return this.#publisher.listen(listener);
  }

  health(): { readonly ok: boolean; readonly why: string } {
    return this.#scheduler.health();
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    this.#parts.engine.close();
    await this.#readings.close();
    await this.#ticking;
    this.#scheduler.runner.saveAll();
    this.#parts.store.close();
  }

  #sawAlert(alert: Alert): void {
    this.#alerts.push(alert);
    if (this.#alerts.length > keptAlerts) this.#alerts.shift();
    this.#publisher.publish({ type: 'alert', alert });
  }

  /** Something about jobs changed: those who listen hear of it. */
  #changed(): void {
    this.#publisher.publishChanges();
    void this.#publisher.publishSoon(this.#queueEvent, queueEventSeconds);
  }

  readonly #devicesEvent = (): DaemonEvent => ({
    type: 'devices',
    epochMs: this.#clock.epochMs(),
    devices: this.devices(),
  });

  readonly #queueEvent = (): DaemonEvent => {
    const waiting = this.#scheduler.queue.first(firstOfQueue).flatMap(({ id }) => {
      const told = this.#waitingOf(id);
      return told === null ? [] : [{ id, ...told }];
    });
    return { type: 'queue', waiting, counts: this.counts() };
  };

  #summary(stored: StoredJob): JobSummary {
    return jobSummary(stored, this.#waitingOf(stored.job.id));
  }

  #view(stored: StoredJob): JobView {
    const { id } = stored.job;
    const live = this.#scheduler.runner.running.get(id);
    const { folder } = this.#parts;
    const logBytes = this.#files.logBytes(id);
    return jobView(stored, this.#waitingOf(id), live, { logBytes, folder });
  }

  #waitingOf(id: string): JobView['waiting'] {
    const { queue } = this.#scheduler;
    return queue.waitingOf(id, () => this.#parts.ledger.rooms(), this.#clock.epochMs());
  }

  /** What a job may wait counts from when it is in the queue; its estimate may have taken longer. */
  #waitingFromNow(job: NewJob, askedMs: number): NewJob {
    if (job.deadlineMs === undefined) return job;
    return { ...job, deadlineMs: job.deadlineMs + this.#clock.epochMs() - askedMs };
  }

  #requireOpen(): void {
    if (!this.#closing.signal.aborted) return;
    throw new Failure({
      kind: 'missing',
      code: 'daemon-closed',
      fact: 'The daemon is closing.',
      next: 'Start "plimsoll serve" again.',
    });
  }
}
