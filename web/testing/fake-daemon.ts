import { Failure } from '../../src/failure.js';
import type {
  Daemon,
  DaemonEvent,
  DeviceView,
  JobRequest,
  JobSummary,
  JobView,
} from '../../src/jobs/daemon/types.js';
import { hasEnded, type JobState, jobStates } from '../../src/jobs/types.js';
import { GiB } from '../../src/units/bytes.js';
import { isKnown } from '../../src/units/known.js';
import { makeDevice } from './made-devices.js';
import { makeJob, type Random, randomFrom } from './made-jobs.js';

export interface FakeMachine {
  readonly gpus: number;
  readonly jobs: number;
  readonly seed: number;
  readonly nowMs: number;
}

/** A daemon with nothing behind it that is as busy as one wants. Whoever made it lets it tick. */
export interface FakeDaemon extends Daemon {
  /** Reads all devices; every `change` ticks a job moves on. */
  tick(nowMs: number): void;
}

const waitingJobs = 60;
const changeEvery = 2;
/** Seconds into the show at which it begins: a leak is far on by then. */
const showBegins = 240 + 192;

export function openFakeDaemon({ gpus, jobs: count, seed, nowMs }: FakeMachine): FakeDaemon {
  const random: Random = randomFrom(seed);
  const jobs = new Map<string, JobView>();
  const listeners = new Set<(event: DaemonEvent) => void>();
  const startMs = nowMs;
  let latestMs = nowMs;
  let ticks = 0;
  let changes = 0;

  const ended: readonly JobState[] = [
    'succeeded',
    'succeeded',
    'succeeded',
    'failed',
    'cancelled',
    'expired',
    'refused',
  ];
  const active = Math.min(count, gpus * 3 - 2);
  for (let number = 1; number <= count; number++) {
    const left = count - number;
    const state: JobState =
      left < waitingJobs && count > active + waitingJobs
        ? 'waiting'
        : left < waitingJobs + active
          ? 'running'
          : (ended[Math.floor(random() * ended.length)] ?? 'succeeded');
    jobs.set(String(number), makeJob({ number, state, nowMs, random }));
  }
  place();
  explain();

  /** Every running job has its device: three each at most, as far as they fit. */
  function place(): void {
    const free = Array.from({ length: gpus }, () => 66 * GiB);
    for (const job of jobs.values()) {
      if (job.state !== 'running') continue;
      const bytes = Math.min(job.need.bytes, 30 * GiB);
      const index = free.indexOf(Math.max(...free));
      free[index] = (free[index] ?? 0) - bytes;
      const reservation = { devices: [`gpu:${index}`], bytes, basis: job.need.basis };
      jobs.set(job.id, { ...job, reservation });
    }
  }

  function explain(): void {
    let position = 0;
    for (const job of jobs.values()) {
      if (job.state !== 'waiting') continue;
      position += 1;
      if (position > 100) break;
      jobs.set(job.id, {
        ...job,
        waiting: {
          position,
          why: `It needs ${(job.need.bytes / GiB).toFixed(1)} GiB on a device; the most that is free is 4.1 GiB.`,
          expectedStartAt:
            position > 40 ? 'unknown' : new Date(latestMs + position * 90_000).toISOString(),
          expiresAt: null,
        },
      });
    }
  }

  function viewDevices(): readonly DeviceView[] {
    const running = runningJobs();
    return Array.from({ length: gpus }, (_, index) => deviceAt(index, latestMs, running));
  }

  function runningJobs(): readonly JobView[] {
    return [...jobs.values()].filter(({ state }) => state === 'running');
  }

  /** Jobs as they are now; what they use, as it was then. */
  function deviceAt(index: number, atMs: number, running: readonly JobView[]): DeviceView {
    const on = running.filter(({ reservation }) => reservation?.devices.includes(`gpu:${index}`));
    return makeDevice(index, on, (atMs - startMs) / 1000 + showBegins, atMs);
  }

  function tellJob(job: JobView, what: string): void {
    jobs.set(job.id, job);
    changes += 1;
    emit({ type: 'job', id: changes, job: summaryOf(job), what });
  }

  function emit(event: DaemonEvent): void {
    for (const listener of listeners) listener(event);
  }

  /** The oldest running job ends, the first waiting one takes its place, another one comes. */
  function moveOn(): void {
    const all = [...jobs.values()];
    const done = all.find(({ state }) => state === 'running');
    const next = all.find(({ state }) => state === 'waiting');
    if (done === undefined || next === undefined) return;
    const at = new Date(latestMs).toISOString();
    const { reservation } = done;
    tellJob({ ...done, state: 'succeeded', endedAt: at, usedBytes: 'unknown' }, 'succeeded');
    tellJob({ ...next, state: 'running', startedAt: at, waiting: null, reservation }, 'running');
    const number = jobs.size + 1;
    tellJob(makeJob({ number, state: 'waiting', nowMs: latestMs, random }), 'waiting');
    explain();
    emit({ type: 'queue', waiting: queueOf(), counts: counted() });
  }

  function queueOf() {
    return [...jobs.values()].flatMap(({ id, waiting }) =>
      waiting === null ? [] : [{ id, ...waiting }],
    );
  }

  function counted(): Record<JobState, number> {
    const found = Object.fromEntries(jobStates.map((state) => [state, 0]));
    for (const { state } of jobs.values()) found[state] = (found[state] ?? 0) + 1;
    return {
      waiting: 0,
      running: 0,
      succeeded: 0,
      failed: 0,
      cancelled: 0,
      refused: 0,
      expired: 0,
      ...found,
    };
  }

  function jobOf(id: string): JobView {
    const job = jobs.get(id);
    if (job === undefined) {
      throw new Failure({
        kind: 'input',
        code: 'unknown-job',
        fact: `There is no job ${id}.`,
        next: 'See which there are with "plimsoll jobs".',
      });
    }
    return job;
  }

  return {
    health: () => ({ ok: true, why: '' }),
    tick(now) {
      latestMs = now;
      ticks += 1;
      emit({ type: 'devices', epochMs: now, devices: viewDevices() });
      if (ticks % changeEvery === 0) moveOn();
    },
    submit(request: JobRequest) {
      const number = jobs.size + 1;
      const made = makeJob({ number, state: 'waiting', nowMs: latestMs, random });
      const job: JobView = { ...made, name: request.name ?? made.name, command: request.command };
      tellJob(job, 'waiting');
      return Promise.resolve(job);
    },
    request(id) {
      const job = jobOf(id);
      return { command: job.command, name: job.name, gpus: job.gpus, cwd: job.cwd };
    },
    cancel(id) {
      const job = jobOf(id);
      if (hasEnded(job.state)) {
        throw new Failure({
          kind: 'input',
          code: 'job-has-ended',
          fact: `Job ${id} has ended.`,
          next: 'There is nothing to cancel.',
        });
      }
      const at = new Date(latestMs).toISOString();
      tellJob({ ...job, state: 'cancelled', endedAt: at, waiting: null }, 'cancelled');
      return Promise.resolve(jobOf(id));
    },
    job: jobOf,
    jobs({ states, after, newestFirst = false, limit = 1000 }) {
      const all = [...jobs.values()].filter(
        ({ id, state }) =>
          (states === undefined || states.includes(state)) &&
          (after === undefined ||
            (newestFirst ? Number(id) < Number(after) : Number(id) > Number(after))),
      );
      return (newestFirst ? all.toReversed() : all).slice(0, limit).map(summaryOf);
    },
    counts: counted,
    readLog(id, from, most) {
      jobOf(id);
      const all = new TextEncoder().encode(logText);
      const bytes = all.slice(from, from + most);
      return Promise.resolve({ bytes, size: all.length, next: from + bytes.length });
    },
    jobHistory(id) {
      const { need, startedAt, endedAt } = jobOf(id);
      if (startedAt === null) return { epochMs: [], usedBytes: [] };
      const from = Date.parse(startedAt);
      const to = endedAt === null ? latestMs : Date.parse(endedAt);
      const epochMs = Array.from({ length: 200 }, (_, index) => from + ((to - from) * index) / 199);
      return {
        epochMs,
        usedBytes: epochMs.map((_, index) =>
          index > 38 && index < 42
            ? null
            : Math.round(
                need.bytes *
                  Math.min(index < 40 ? 1 : 0.81, ((index % 40) + 4) / 12) *
                  (0.97 + 0.03 * Math.sin(index)),
              ),
        ),
      };
    },
    devices: viewDevices,
    deviceHistory(id, windowSeconds, points) {
      const index = Number(id.slice('gpu:'.length));
      const epochMs = Array.from(
        { length: points },
        (_, point) => latestMs - windowSeconds * 1000 * (1 - (point + 1) / points),
      );
      const running = runningJobs();
      const used = epochMs.map((atMs) => deviceAt(index, atMs, running).usedBytes);
      return {
        id,
        epochMs,
        usedMax: used.map((bytes) => (isKnown(bytes) ? bytes : null)),
        usedMin: used.map((bytes, point) =>
          isKnown(bytes) ? Math.round(bytes * (0.96 + 0.02 * Math.sin(point))) : null,
        ),
        alerts: deviceAt(index, latestMs, running).alerts,
      };
    },
    status() {
      const devices = viewDevices();
      const counts = counted();
      return {
        activeJobs: counts.running,
        waitingJobs: counts.waiting,
        reservedBytes: devices.reduce((sum, { reservedBytes }) => sum + reservedBytes, 0),
        waitingBytes: 0,
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
    eventsAfter: () => ({ events: [], first: changes + 1, last: changes }),
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => Promise.resolve(),
  };
}

/** Nobody minds what a list has beside what it must have; only its size counts here. */
function summaryOf(job: JobView): JobSummary {
  return job;
}

const logText = Array.from({ length: 300 }, (_, step) =>
  step === 120
    ? '\u001b[31mRuntimeError: CUDA out of memory. Tried to allocate 1.17 GiB.\u001b[0m\n\u001b[33mplimsoll: batch 32 -> 16, accumulation 1 -> 2; attempt 2 begins\u001b[0m'
    : `step ${String(step).padStart(4)}  loss ${(4 / (1 + step / 40)).toFixed(4)}  ${(180 + (step % 7)).toFixed(0)} samples/s`,
).join('\n');
