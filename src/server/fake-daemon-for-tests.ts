import { Failure } from '../failure.js';
import { madeJob, madeWaiting } from '../jobs/daemon/made-for-tests.js';
import type {
  Daemon,
  DaemonEvent,
  DeviceView,
  JobRequest,
  JobSummary,
  JobView,
  Submitter,
} from '../jobs/daemon/types.js';
import { hasEnded, type JobState, jobStates, ownerName } from '../jobs/types.js';
import { deviceExample } from './routes/examples.js';

type JobEvent = Extract<DaemonEvent, { type: 'job' }>;

/** A daemon in memory: nothing runs, all is told at once, and time is what the test says. */
export interface FakeDaemon extends Daemon {
  /** Tells all who listen. */
  publish(event: DaemonEvent): void;
  /** Keeps a job as it is given, and tells it. */
  put(job: JobView, what: string): JobView;
  /** Keeps jobs as they are given, and tells nothing. */
  replace(jobs: readonly JobView[]): void;
  /** Moves a job on, and tells it. */
  change(id: string, parts: Partial<JobView>, what?: string): JobView;
  setDevices(devices: readonly DeviceView[]): void;
  setLog(id: string, text: string): void;
  /** The next call of any method throws this. */
  failNext(error: Error): void;
  /** Forgets changes up to this id. */
  forgetUpTo(id: number): void;
  setHealth(health: { ok: boolean; why: string }): void;
  readonly listeners: number;
  /** Requests as they came in. */
  readonly submitted: readonly JobRequest[];
  /** Who sent them. */
  readonly submitters: readonly (Submitter | undefined)[];
}

const startedAt = Date.UTC(2026, 0, 1);

/**
 * @example
 * const daemon = createFakeDaemon();
 * const job = await daemon.submit({ command: ['true'] });
 * daemon.change(job.id, { state: 'running' });
 */
export function createFakeDaemon({
  jobs: first = [],
  keptEvents = Infinity,
}: {
  /** Those that are there from the start; none of them is told. */
  readonly jobs?: readonly JobView[];
  readonly keptEvents?: number;
} = {}): FakeDaemon {
  const jobs = new Map(first.map((job) => [job.id, job]));
  const logs = new Map<string, Buffer>();
  const events: JobEvent[] = [];
  const listeners = new Set<(event: DaemonEvent) => void>();
  const submitted: JobRequest[] = [];
  const submitters: (Submitter | undefined)[] = [];
  let devices: readonly DeviceView[] = [deviceExample];
  let health = { ok: true, why: '' };
  let failure: Error | undefined;
  let lastEvent = 0;

  function guard(): void {
    const error = failure;
    failure = undefined;
    if (error) throw error;
  }

  function found(id: string): JobView {
    guard();
    const job = jobs.get(id);
    if (job) return job;
    throw new Failure({
      kind: 'input',
      code: 'unknown-job',
      fact: `There is no job "${id.slice(0, 40)}".`,
      next: 'Run "plimsoll jobs" to see them.',
    });
  }

  function publish(event: DaemonEvent): void {
    for (const listener of listeners) listener(event);
  }

  function keep(job: JobView, what: string): JobView {
    jobs.set(job.id, job);
    lastEvent += 1;
    const event: JobEvent = { type: 'job', id: lastEvent, job: summaryOf(job), what };
    events.push(event);
    if (events.length > keptEvents) events.shift();
    publish(event);
    return job;
  }

  function counts(): Record<JobState, number> {
    const all = [...jobs.values()];
    const of = (state: JobState): number => all.filter((job) => job.state === state).length;
    const entries = jobStates.map((state): [JobState, number] => [state, of(state)]);
    return { ...zeroCounts, ...Object.fromEntries(entries) };
  }

  return {
    publish,
    put: keep,
    replace(next) {
      for (const job of next) jobs.set(job.id, job);
    },
    submitted,
    submitters,
    get listeners() {
      return listeners.size;
    },
    change: (id, parts, what = 'changed') => keep({ ...found(id), ...parts }, what),
    setDevices(next) {
      devices = next;
    },
    setLog(id, text) {
      logs.set(id, Buffer.from(text));
    },
    failNext(error) {
      failure = error;
    },
    forgetUpTo(id) {
      events.splice(
        0,
        events.findIndex((event) => event.id > id),
      );
    },
    setHealth(next) {
      health = next;
    },
    health: () => health,
    async submit(request, by) {
      guard();
      submitted.push(request);
      submitters.push(by);
      const owner = by?.name ?? ownerName;
      return keep({ ...newJob(String(jobs.size + 1), request), owner }, 'submitted');
    },
    async cancel(id) {
      const job = found(id);
      if (hasEnded(job.state)) {
        throw new Failure({
          kind: 'input',
          code: 'job-has-ended',
          fact: `Job ${id} has ended: it is ${job.state}.`,
          next: 'There is nothing to cancel.',
        });
      }
      return keep(
        {
          ...job,
          state: 'cancelled',
          reason: 'Cancelled.',
          reasonDetails: { code: 'cancelled', during: 'running' },
          waiting: null,
        },
        'ended',
      );
    },
    async limit(id, bytes) {
      const job = found(id);
      const limit = { askedBytes: bytes, state: 'asked', why: '' } as const;
      return keep({ ...job, limit }, 'note');
    },
    job: found,
    request: (id) => submitted[Number(found(id).id) - 1] ?? { command: found(id).command },
    jobs({ states = jobStates, after, newestFirst = false, limit = Infinity }) {
      guard();
      const all = [...jobs.values()].filter(({ state }) => states.includes(state));
      const ordered = newestFirst ? all.toReversed() : all;
      const behind = ordered.filter(({ id }) => {
        if (after === undefined) return true;
        return newestFirst ? Number(id) < Number(after) : Number(id) > Number(after);
      });
      return behind.slice(0, limit).map(summaryOf);
    },
    counts,
    async readLog(id, from, most) {
      found(id);
      const log = logs.get(id) ?? Buffer.alloc(0);
      const bytes = log.subarray(from, from + most);
      return { bytes, size: log.length, next: from + bytes.length };
    },
    jobHistory(id) {
      found(id);
      return { epochMs: [startedAt], usedBytes: [null] };
    },
    devices() {
      guard();
      return devices;
    },
    deviceHistory(id, windowSeconds, points) {
      guard();
      if (!devices.some((device) => device.id === id)) {
        throw new Failure({
          kind: 'input',
          code: 'unknown-device',
          fact: `There is no device ${id.slice(0, 40)}.`,
          next: 'GET /devices lists them.',
        });
      }
      const count = Math.min(points, windowSeconds);
      const epochMs = Array.from({ length: count }, (_, at) => startedAt + at * 1000);
      return {
        id,
        epochMs,
        usedMax: epochMs.map(() => 2),
        usedMin: epochMs.map(() => 1),
        alerts: [],
      };
    },
    status() {
      guard();
      const { running, waiting } = counts();
      return {
        activeJobs: running,
        waitingJobs: waiting,
        reservedBytes: running * 1024 ** 3,
        waitingBytes: waiting * 1024 ** 3,
        devices: devices.map(({ id, totalBytes, usedBytes, freeBytes }) => ({
          id,
          totalBytes,
          usedBytes,
          freeBytes,
          usedPercent: 'unknown',
          status: 'available',
        })),
      };
    },
    eventsAfter(id, most) {
      guard();
      const after = events.filter((event) => event.id > id).slice(0, most);
      return { events: after, first: events[0]?.id ?? lastEvent + 1, last: lastEvent };
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      listeners.clear();
    },
  };
}

const zeroCounts: Record<JobState, number> = {
  waiting: 0,
  running: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  refused: 0,
  expired: 0,
};

function newJob(id: string, request: JobRequest): JobView {
  const bytes = request.memoryBytes ?? 1024 ** 3;
  return madeJob({
    id,
    name: request.name ?? request.command[0] ?? '',
    command: request.command,
    priority: request.priority ?? 0,
    submittedAt: new Date(startedAt + Number(id) * 1000).toISOString(),
    gpus: request.gpus ?? 1,
    cwd: request.cwd ?? '/srv',
    need: {
      bytes,
      basis: 'stated',
      why: 'Stated.',
      whyDetails: { code: 'stated', bytes, runs: 0, maxPeakBytes: 'unknown' },
      estimatedBytes: 'unknown',
      runs: 0,
    },
    waiting: madeWaiting({ position: Number(id) }),
  });
}

function summaryOf(job: JobView): JobSummary {
  const { cwd: _, usedBytes: __, currentAttempt: ___, log: ____, ...summary } = job;
  return summary;
}
