import { orderReasonWords } from '../../src/jobs/daemon/submission/job-queue.js';
import type { Daemon, DeviceView, JobRequest, JobView } from '../../src/jobs/daemon/types.js';
import type { OrderReason, WaitingReason } from '../../src/jobs/reasons/types.js';
import { waitingReasonWords } from '../../src/jobs/reasons/words.js';
import type { JobState } from '../../src/jobs/types.js';
import { createFakeDaemon } from '../../src/server/fake-daemon-for-tests.js';
import { GiB } from '../../src/units/bytes.js';
import { isKnown } from '../../src/units/known.js';
import { makeDevice } from './made-devices.js';
import { logText, makeJob, type Random, randomFrom, usedOverTime } from './made-jobs.js';

export interface FakeMachine {
  readonly gpus: number;
  readonly jobs: number;
  readonly seed: number;
  readonly nowMs: number;
}

/** A daemon with nothing behind it that is as busy as one wants; it moves when it is ticked. */
export interface BusyDaemon extends Daemon {
  /** Reads all devices; every `changeEvery` ticks a job moves on. */
  tick(nowMs: number): void;
}

const waitingJobs = 60;
const changeEvery = 2;
/** Seconds into the show at which it begins: a leak is far on by then. */
const showBegins = 240 + 192;
const endStates: readonly JobState[] = [
  'succeeded',
  'succeeded',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'refused',
];

export function openFakeDaemon({ gpus, jobs: count, seed, nowMs }: FakeMachine): BusyDaemon {
  const random: Random = randomFrom(seed);
  const startMs = nowMs;
  let latestMs = nowMs;
  let ticks = 0;
  const base = createFakeDaemon({ jobs: explained(firstJobs(), latestMs) });

  function firstJobs(): readonly JobView[] {
    const active = Math.min(count, gpus * 3 - 2);
    return placed(
      Array.from({ length: count }, (_, index) => {
        const left = count - index - 1;
        const state: JobState =
          left < waitingJobs && count > active + waitingJobs
            ? 'waiting'
            : left < waitingJobs + active
              ? 'running'
              : (endStates[Math.floor(random() * endStates.length)] ?? 'succeeded');
        return makeJob({ number: index + 1, state, nowMs, random });
      }),
      gpus,
    );
  }

  function jobsIn(state: JobState): readonly JobView[] {
    return base.jobs({ states: [state] }).map(({ id }) => base.job(id));
  }

  function viewDevices(): readonly DeviceView[] {
    const running = jobsIn('running');
    return Array.from({ length: gpus }, (_, index) => deviceAt(index, latestMs, running));
  }

  /** Jobs as they are now; what they use, as it was then. */
  function deviceAt(index: number, atMs: number, running: readonly JobView[]): DeviceView {
    const on = running.filter(({ reservation }) => reservation?.devices.includes(`gpu:${index}`));
    return makeDevice(index, on, (atMs - startMs) / 1000 + showBegins, atMs);
  }

  /** The oldest running job ends, the first waiting one takes its place, another one comes. */
  function moveOn(): void {
    const [done] = jobsIn('running');
    const [next] = jobsIn('waiting');
    if (done === undefined || next === undefined) return;
    const at = new Date(latestMs).toISOString();
    const { reservation } = done;
    base.put({ ...done, state: 'succeeded', endedAt: at, usedBytes: 'unknown' }, 'succeeded');
    base.put({ ...next, state: 'running', startedAt: at, waiting: null, reservation }, 'running');
    base.put(newJob(), 'waiting');
    const queue = explained(jobsIn('waiting'), latestMs);
    base.replace(queue);
    const waiting = queue.flatMap((job) =>
      job.waiting === null ? [] : [{ id: job.id, ...job.waiting }],
    );
    base.publish({ type: 'queue', waiting, counts: base.counts() });
  }

  function newJob(): JobView {
    const number = Object.values(base.counts()).reduce((sum, jobs) => sum + jobs, 1);
    return makeJob({ number, state: 'waiting', nowMs: latestMs, random });
  }

  return {
    ...base,
    tick(now) {
      latestMs = now;
      ticks += 1;
      base.publish({ type: 'devices', epochMs: now, devices: viewDevices() });
      if (ticks % changeEvery === 0) moveOn();
    },
    async submit(request: JobRequest) {
      const made = newJob();
      const { name = made.name, command } = request;
      return base.put({ ...made, name, command }, 'waiting');
    },
    request(id) {
      const { command, name, gpus: asked, cwd } = base.job(id);
      return { command, name, gpus: asked, cwd };
    },
    async readLog(id, from, most) {
      base.job(id);
      const all = new TextEncoder().encode(logText);
      const bytes = all.slice(from, from + most);
      return { bytes, size: all.length, next: from + bytes.length };
    },
    jobHistory: (id) => usedOverTime(base.job(id), latestMs),
    devices: viewDevices,
    deviceHistory(id, windowSeconds, points) {
      const index = Number(id.slice('gpu:'.length));
      const epochMs = Array.from(
        { length: points },
        (_, point) => latestMs - windowSeconds * 1000 * (1 - (point + 1) / points),
      );
      const running = jobsIn('running');
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
  };
}

/** Every running job has its device: three each at most, as far as they fit. */
function placed(jobs: readonly JobView[], gpus: number): readonly JobView[] {
  const free = Array.from({ length: gpus }, () => 66 * GiB);
  return jobs.map((job) => {
    if (job.state !== 'running') return job;
    const bytes = Math.min(job.need.bytes, 30 * GiB);
    const index = free.indexOf(Math.max(...free));
    free[index] = (free[index] ?? 0) - bytes;
    return {
      ...job,
      reservation: { devices: [`gpu:${index}`], bytes, basis: job.need.basis },
    };
  });
}

function orderBehind(jobId: string, position: number): OrderReason {
  return position === 2
    ? { code: 'first-of-workload', jobId }
    : { code: 'earlier', jobId, seconds: 40 + position };
}

/** The first hundred that wait know their place, and why they wait. */
function explained(jobs: readonly JobView[], nowMs: number): readonly JobView[] {
  let position = 0;
  let before = '';
  return jobs.map((job) => {
    if (job.state !== 'waiting' || position === 100) return job;
    position += 1;
    const whyDetails: WaitingReason = {
      code: 'memory-in-use',
      bytes: job.need.bytes,
      devices: 1,
      wholeDevice: false,
      freeBytes: Math.round(4.1 * GiB),
      // With the reason for its place, one as long as they come.
      keptDevices: position === 2 ? ['gpu:0'] : [],
    };
    const expectedStartAt =
      position > 40 ? 'unknown' : new Date(nowMs + position * 90_000).toISOString();
    const why = waitingReasonWords(whyDetails);
    const orderDetails = position === 1 ? null : orderBehind(before, position);
    before = job.id;
    const order = orderDetails === null ? '' : orderReasonWords(orderDetails);
    const reasons = { why, whyDetails, order, orderDetails };
    return { ...job, waiting: { position, ...reasons, expectedStartAt, expiresAt: null } };
  });
}
