import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import type { Discovery } from '../../device/discover.js';
import { type SharedDiscovery, shareReadings } from '../../device/shared-device.js';
import { contextBytesOf, type GpuEntry } from '../../estimate/cards/gpus.js';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { loadLibc } from '../../run/launch/libc.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { checkArguments, fileName, object } from '../../units/arguments.js';
import type { Alert } from '../../watch/types.js';
import { checkGpusThere } from '../job-variables.js';
import { Ledger } from '../ledger.js';
import { beyondQuota, type QuotaOf } from '../quota.js';
import { waitingReasonWords } from '../reasons/words.js';
import { type JobStore, openJobStore } from '../store/job-store.js';
import type { EstimatedJob, JobFilter, NewJob, StoredJob } from '../store/records.js';
import { type JobState, ownerName, type WaitingJob } from '../types.js';
import { DeviceReadings, readDevice } from './devices/device-readings.js';
import { deviceHistory, deviceStatus, deviceView } from './devices/device-views.js';
import { type ConcurrencyLimit, limitConcurrency } from './limit-concurrency.js';
import type { DaemonOptions } from './options.js';
import { environmentForJobs } from './running/inherited-environment.js';
import { JobFiles, makeJobFolders } from './running/job-files.js';
import { Scheduler } from './scheduler.js';
import { JobEstimates, type JobToEstimate } from './submission/job-estimates.js';
import { checkRequest, withOneBatch, withServerChanges } from './submission/job-request.js';
import { newJobOf, type SubmissionParts } from './submission/submission.js';
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
  Submitter,
  WorkersStatus,
} from './types.js';
import { attemptNow, jobSummary, jobView, limitView, requestOf } from './views/job-views.js';
import { Publisher } from './views/publisher.js';

/** The processes of a host cost most of what watching costs; jobs are looked at more often. */
const defaultWatch = { intervalSeconds: 0.5, processIntervalSeconds: 5 };

const daemonRules = { home: fileName, discovery: object, engine: object, environment: object };

/**
 * Opens the store, takes up the jobs that run, and lets those that wait start as there is room. One
 * process can have a store; another one's is a `Failure`. Jobs go on when the daemon ends, however it
 * ends, and the next one takes them up.
 *
 * @example
 * const engine = localEngine({ home, command: [process.execPath, bin], environment, folder });
 * const daemon = await openDaemon({ home, discovery, engine, environment, folder });
 * const { id } = await daemon.submit({ command: ['python', 'train.py'], memoryBytes: 6 * 2 ** 30 });
 * console.log(daemon.job(id).state);
 * await daemon.close();
 */
export async function openDaemon(options: DaemonOptions): Promise<Daemon> {
  checkArguments('openDaemon', { ...Object(options) }, daemonRules);
  const { clock = systemClock, home, variables = {} } = options;
  const { useGpus = true, devices: named, marginBytes } = variables;
  const discovery = shareReadings(options.discovery, clock);
  const infos = discovery.devices.map(({ info }) => info);
  checkGpusThere(
    variables,
    infos.flatMap(({ id, kind }) => (kind === 'host' ? [] : [id])),
  );
  const takes = (id: string) =>
    id === 'host' || (useGpus && (named === undefined || named.includes(id)));
  const ledger = new Ledger([], { share: options.loadLine, marginBytes }, clock);
  for (const device of discovery.devices) {
    if (!takes(device.info.id)) continue;
    const capacityBytes = (await readDevice(device))?.totalBytes ?? 'unknown';
    // One that cannot be read yet comes in with its first sample.
    if (capacityBytes !== 'unknown') ledger.add({ id: device.info.id, capacityBytes });
  }
  const store = await openJobStore(join(home, 'jobs.db'));
  try {
    store.endDamaged(clock.epochMs());
    makeJobFolders(home);
    const libc = await loadLibc();
    const files = new JobFiles(home, 'why' in libc ? undefined : libc.pipes);
    const said = catchUp(store, files, clock.epochMs());
    if (said !== undefined) options.log?.(said);
    return buildDaemon({ ...options, clock, discovery, store, ledger, takes, files });
  } catch (error) {
    store.close();
    throw error;
  }
}

/**
 * Compares the store with the files beside it. A backup that was put back, or a lost write-ahead log,
 * makes a store that has forgotten jobs: those that started are taken back from their records, and no
 * id is given a second time. Answers the words for the person who runs the server; undefined where
 * nothing was forgotten.
 */
function catchUp(store: JobStore, files: JobFiles, nowMs: number): string | undefined {
  const before = store.lastId();
  const highest = Math.max(before, files.highestId());
  const waiting = new Set(store.waiting().map(({ id }) => id));
  const records = files
    .ids()
    .filter((id) => Number(id) > before || waiting.has(id))
    .flatMap((id) => {
      const row = files.readRecord(id);
      return row !== undefined && String(row['sequence']) === id ? [row] : [];
    });
  if (highest === before && records.length === 0) return undefined;
  const taken = store.catchUp(records, highest, nowMs);
  const forgotten = highest - before;
  const lost = forgotten - taken.filter((id) => Number(id) > before).length;
  if (forgotten === 0 && taken.length === 0) return undefined;
  return [
    `The store of jobs is older than the files beside it: it ends at job ${before}, and ${highest} was given out.`,
    taken.length === 0 ? '' : `Taken back: ${counted(taken.length)} that had started.`,
    lost === 0 ? '' : `Lost: ${counted(lost)}; submit again what had not run.`,
    `The next job is ${highest + 1}: no id is given twice.`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

function counted(jobs: number): string {
  return jobs === 1 ? '1 job' : `${jobs} jobs`;
}

/** Each part is built from those before it; what happens later in one reaches others by signals. */
function buildDaemon(
  options: DaemonOptions & {
    readonly clock: Clock;
    readonly discovery: SharedDiscovery;
    readonly store: JobStore;
    readonly ledger: Ledger;
    readonly takes: (deviceId: string) => boolean;
    readonly files: JobFiles;
  },
): Daemon {
  const { clock, store, ledger, files, discovery } = options;
  const closing = new AbortController();
  const { signal } = closing;
  // Every submit that is being estimated listens to it.
  setMaxListeners(0, signal);
  const contextBytes = contextBytesOn(discovery, options.gpus);
  const isSimulated = (deviceId: string) =>
    discovery.devices.find(({ info }) => info.id === deviceId)?.info.provenance === 'simulated';
  const scheduler = new Scheduler({ ...options, signal, files, contextBytes, isSimulated });
  const { running } = scheduler.runner;
  const watch = { ...defaultWatch, ...options.watch };
  const readings = new DeviceReadings({ ...options, watch, running });
  scheduler.startedOrEnded.listen(() => readings.lookNow());
  readings.usageRead.listen((use) => scheduler.runner.sawUse(use));
  readings.ledgerUpdated.listen(() => scheduler.admitSoon());
  scheduler.takeUp();
  if (scheduler.queue.runningCount > 0) readings.lookNow();
  return new JobDaemon({ options, clock, store, ledger, files, scheduler, readings, closing });
}

/** What a process takes of each device before it has anything there; of the host that is nothing. */
function contextBytesOn(
  { devices }: Pick<Discovery, 'devices'>,
  configured: readonly GpuEntry[] | undefined,
): (deviceId: string) => number {
  const known = new Map<string, number>();
  return (deviceId) => {
    const info = devices.find((device) => device.info.id === deviceId)?.info;
    if (info === undefined || info.kind === 'host') return 0;
    const bytes = known.get(info.name) ?? contextBytesOf(info.name, configured);
    known.set(info.name, bytes);
    return bytes;
  };
}

/** Each may start a process that traces a model; who knows the machine says how many it bears. */
const usualEstimatesAtOnce = 2;
const queueEventSeconds = 0.5;
/** All devices are read at the same tick: their samples come within this, and are told as one. */
const devicesEventSeconds = 0.03;
const firstOfQueue = 100;
/** Between two tries to keep an estimate. */
const storeAgainSeconds = 1;
/** What a chart of a day has room for. */
const keptAlerts = 500;

/** What a daemon is put together from; `openDaemon` builds them, each from those before it. */
interface DaemonParts {
  readonly options: DaemonOptions;
  readonly clock: Clock;
  readonly store: JobStore;
  readonly ledger: Ledger;
  readonly files: JobFiles;
  readonly scheduler: Scheduler;
  readonly readings: DeviceReadings;
  /** Ends what goes on by itself. */
  readonly closing: AbortController;
}

/** The daemon as the server sees it: takes requests in, and shows what there is. */
class JobDaemon implements Daemon {
  readonly #options: DaemonOptions;
  readonly #clock: Clock;
  readonly #store: JobStore;
  readonly #ledger: Ledger;
  readonly #files: JobFiles;
  readonly #scheduler: Scheduler;
  readonly #readings: DeviceReadings;
  readonly #closing: AbortController;
  readonly #publisher: Publisher;
  readonly #estimates: JobEstimates;
  readonly #withLimit: ConcurrencyLimit;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #alerts: Alert[] = [];
  readonly #ticking: Promise<void>;

  constructor({ options, clock, store, ledger, files, scheduler, readings, closing }: DaemonParts) {
    const { signal } = closing;
    this.#options = options;
    this.#clock = clock;
    this.#store = store;
    this.#ledger = ledger;
    this.#files = files;
    this.#scheduler = scheduler;
    this.#readings = readings;
    this.#closing = closing;
    this.#withLimit = limitConcurrency(options.estimatesAtOnce ?? usualEstimatesAtOnce);
    this.#environment = environmentForJobs(options.environment);
    this.#publisher = new Publisher({
      store,
      clock,
      signal,
      summaryOf: (id) => {
        const stored = store.job(id);
        return stored && this.#summary(stored);
      },
    });
    this.#estimates = new JobEstimates({
      isWanted: (id) => scheduler.queue.isEstimating(id),
      estimate: (...asked) => this.#estimate(...asked),
      onChange: () => this.#queueMoved(),
    });
    scheduler.changed.listen(() => this.#changed());
    readings.alerted.listen((alert) => this.#sawAlert(alert));
    readings.sampled.listen(
      () => void this.#publisher.publishSoon(this.#devicesEvent, devicesEventSeconds),
    );
    this.#ticking = scheduler.tick();
    for (const stored of store.estimating()) this.#estimates.add(toEstimate(stored));
  }

  async submit(request: JobRequest, by: Submitter = { name: ownerName }): Promise<JobView> {
    this.#requireOpen();
    const { folder, estimate, plan, estimateProgram, quotaOf } = this.#options;
    const asked = withServerChanges(withOneBatch(request), this.#options.environmentChanges);
    const submission = submissionOf(asked, by);
    const known = () => (submission === undefined ? undefined : this.#store.submitted(submission));
    const before = known();
    if (before !== undefined) return this.#view(before);
    checkRequest(asked, { folder, environment: this.#environment });
    this.#files.check();
    this.#scheduler.checkRoom(by.name);
    const nowMs = this.#scheduler.time.nowMs();
    const made = await newJobOf(asked, {
      ...this.#parts(nowMs),
      estimate: estimate && ((workload, signal) => estimate(workload, signal, this.#withLimit)),
      plan: plan && ((workload, within, signal) => plan(workload, within, signal, this.#withLimit)),
      // A person waits for the answer: the program is traced after it.
      estimateProgram: estimateProgram && 'later',
      signal: this.#closing.signal,
    });
    this.#requireOpen();
    const job = ownedJob({ ...made, submission }, by, quotaOf);
    // Sent again while the first one was being estimated.
    const stored = known() ?? this.#scheduler.submit(this.#waitingFromNow(job, nowMs));
    if (stored.estimating) this.#estimates.add(toEstimate(stored));
    return this.#view(stored);
  }

  async cancel(id: string): Promise<JobView> {
    this.#requireOpen();
    this.#scheduler.cancel(id);
    return await Promise.resolve(this.job(id));
  }

  async limit(id: string, bytes: number): Promise<JobView> {
    this.#requireOpen();
    this.#scheduler.limit(id, bytes);
    return await Promise.resolve(this.job(id));
  }

  job(id: string): JobView {
    return this.#view(this.#scheduler.requireJob(id));
  }

  request(id: string): JobRequest {
    return requestOf(this.#scheduler.requireJob(id));
  }

  jobs(filter: JobFilter): readonly JobSummary[] {
    return this.#store.list(filter).map((stored) => this.#summary(stored));
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
    const rooms = new Map(this.#ledger.rooms().map((room) => [room.id, room]));
    return this.#readings
      .states()
      .filter(({ present }) => present)
      .map((state) => {
        const { id } = state.info;
        return deviceView({
          state,
          room: rooms.get(id),
          entries: this.#ledger.entries(id),
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
    this.#options.engine.close();
    await this.#estimates.close();
    await this.#readings.close();
    await this.#ticking;
    this.#scheduler.runner.saveAll();
    this.#scheduler.keepClock();
    this.#store.close();
  }

  #sawAlert(alert: Alert): void {
    this.#alerts.push(alert);
    if (this.#alerts.length > keptAlerts) this.#alerts.shift();
    this.#publisher.publish({ type: 'alert', alert });
  }

  /** Something about jobs changed: those who listen hear of it. */
  #changed(): void {
    this.#publisher.publishChanges();
    this.#estimates.review();
    this.#queueMoved();
  }

  #queueMoved(): void {
    void this.#publisher.publishSoon(this.#queueEvent, queueEventSeconds);
  }

  readonly #devicesEvent = (): DaemonEvent => ({
    type: 'devices',
    epochMs: this.#clock.epochMs(),
    devices: this.devices(),
  });

  readonly #queueEvent = (): DaemonEvent => {
    const waiting = this.#scheduler.queue.first(firstOfQueue).flatMap((job) => {
      const status = this.#waitingOf(job);
      return status === null ? [] : [{ id: job.id, ...status }];
    });
    return { type: 'queue', waiting, counts: this.counts() };
  };

  #summary(stored: StoredJob): JobSummary {
    return jobSummary(stored, this.#waitingOf(stored.job));
  }

  #view(stored: StoredJob): JobView {
    const { id } = stored.job;
    const live = this.#scheduler.runner.running.get(id);
    const { folder } = this.#options;
    const logBytes = this.#files.logBytes(id);
    const facts = live && {
      usedBytes: live.usedBytes,
      currentAttempt: attemptNow(live),
      limit: limitView(live.limit),
    };
    return jobView(stored, this.#waitingOf(stored.job), facts, { logBytes, folder });
  }

  #waitingOf({ id, owner }: Pick<WaitingJob, 'id' | 'owner'>): JobView['waiting'] {
    const { queue, time } = this.#scheduler;
    const waiting = queue.waitingOf(id, () => this.#ledger.rooms(), time);
    const progress = this.#estimates.progressOf(id, owner ?? ownerName);
    if (waiting === null || progress === undefined) return waiting;
    return { ...waiting, why: waitingReasonWords(progress), whyDetails: progress };
  }

  #parts(nowMs: number): Pick<SubmissionParts, 'lines' | 'runsOf' | 'nowMs' | 'waitSeconds'> {
    return {
      lines: this.#ledger.rooms(),
      runsOf: (key) => this.#store.runsOf(key),
      nowMs,
      waitSeconds: this.#options.variables?.waitTimeoutSeconds,
    };
  }

  /** The estimate of a job that was accepted without one. A store that cannot be used now is tried again. */
  async #estimate(
    id: string,
    signal: AbortSignal,
    onProgress: (doing: string, share?: number) => void,
  ): Promise<void> {
    let found: EstimatedJob | undefined;
    while (!signal.aborted && this.#scheduler.queue.isEstimating(id)) {
      try {
        found ??= await this.#estimated(id, signal, onProgress);
        if (!signal.aborted) this.#scheduler.estimated(id, found);
      } catch {
        await this.#clock.waitUntil(this.#clock.seconds() + storeAgainSeconds, signal);
      }
    }
  }

  async #estimated(
    id: string,
    signal: AbortSignal,
    onProgress: (doing: string, share?: number) => void,
  ): Promise<EstimatedJob> {
    const { estimateProgram, quotaOf } = this.#options;
    const stored = this.#scheduler.requireJob(id);
    const { account } = stored.details;
    const nowMs = this.#scheduler.time.nowMs();
    const made = await newJobOf(requestOf(stored), {
      ...this.#parts(nowMs),
      estimate: undefined,
      plan: undefined,
      // A trace runs the program: as the account that the job will run as.
      estimateProgram:
        estimateProgram &&
        ((job, ending) =>
          traced(
            estimateProgram({ ...job, account, onProgress }, ending, this.#withLimit),
            ending,
          )),
      signal,
    });
    const job = ownedJob(made, { name: stored.job.owner, account }, quotaOf);
    const { need, alone, refused, deadlineMs } = this.#waitingFromNow(job, nowMs);
    const { evidence, elastic } = made.details;
    return { need, alone, refused, deadlineMs, evidence, leastBytes: elastic?.foundBytes };
  }

  /** What a job may wait counts from when it is in the queue; its estimate may have taken longer. */
  #waitingFromNow(job: NewJob, askedMs: number): NewJob {
    if (job.deadlineMs === undefined) return job;
    return { ...job, deadlineMs: job.deadlineMs + this.#scheduler.time.nowMs() - askedMs };
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

/** A trace that fails in a way of its own is one that failed, and no reason to try again. */
async function traced(estimate: Promise<Estimate>, signal: AbortSignal): Promise<Estimate> {
  try {
    return await estimate;
  } catch (error) {
    const isKnown = error instanceof Failure && error.kind !== 'interrupted';
    if (signal.aborted || isKnown) throw error;
    throw new Failure({
      kind: 'job',
      code: 'estimate-failed',
      fact: `The estimate failed: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Give the memory (--memory 6GiB, or "memoryBytes").',
      cause: error,
    });
  }
}

function toEstimate({ job: { id, owner }, turn }: StoredJob): JobToEstimate {
  return { id, owner, turn };
}

/** The word is the sender's own: it never answers another user's job. */
function submissionOf({ submission }: JobRequest, { name }: Submitter): string | undefined {
  return submission === undefined || name === ownerName ? submission : `${name}/${submission}`;
}

/** The job with its owner. One that alone passes his quota is refused: it would wait for ever. */
function ownedJob(
  job: Omit<NewJob, 'owner'>,
  { name, account }: Submitter,
  quotaOf: QuotaOf | undefined,
): NewJob {
  const refused =
    job.refused ??
    (job.estimating
      ? undefined
      : beyondQuota(name, { ...job.need, alone: job.alone }, quotaOf?.(name)));
  const details = account === undefined ? job.details : { ...job.details, account };
  return { ...job, owner: name, details, refused };
}
