import { isKnown, type Known } from '../units/known.js';
import { admit, type QueueSettings, type QueueState, runningFrom, withFree } from './admission.js';
import type { DeviceRoom } from './ledger.js';
import { candidates, goesToHost } from './placement.js';
import { Shares } from './quota.js';
import type { OrderReason, WaitingReason } from './reasons/types.js';
import type { RunningJob, WaitingJob } from './types.js';
import { agingSeconds } from './waiting-list.js';

/** Jobs that are told when they start: looking far ahead costs time and tells little. */
const foreseen = 100;

export interface WaitingStatus {
  readonly id: string;
  /** 1 is next. */
  readonly position: number;
  readonly reason: WaitingReason;
  /** Why the job before it is there; null of the first. */
  readonly order: OrderReason | null;
  /** From the run times of earlier jobs with the same workloads; by the queue's time, in milliseconds. */
  readonly expectedStartMs: Known<number>;
}

/** Why each of the first jobs waits, and when it should start. */
export function explainWaiting(
  state: QueueState,
  settings: QueueSettings = {},
): readonly WaitingStatus[] {
  const expected = expectedStarts(state, settings);
  const shares = new Shares(state.running, settings.quotaOf);
  return placesOf(state.waiting.slice(0, foreseen), state.rooms).map(
    ({ job, position, before }) => ({
      id: job.id,
      position,
      reason: reasonOf(job, state, settings, shares),
      order: before === undefined ? null : orderReason(before, job),
      expectedStartMs: expected.get(job.id) ?? 'unknown',
    }),
  );
}

interface Place {
  readonly job: WaitingJob;
  /** 1 is next. */
  readonly position: number;
  /** Undefined of the first. */
  readonly before: WaitingJob | undefined;
}

/**
 * The place of each job among those that wait for the same memory, that of the GPUs or that of the host. One that
 * waits for its estimate stands in nobody's way.
 */
export function placesOf(
  waiting: readonly WaitingJob[],
  rooms: readonly { readonly id: string }[],
): readonly Place[] {
  const last = new Map<boolean, { readonly job: WaitingJob; readonly position: number }>();
  return waiting.map((job) => {
    const onHost = goesToHost(rooms, job);
    const before = last.get(onHost);
    const position = (before?.position ?? 0) + 1;
    if (job.estimating !== true) last.set(onHost, { job, position });
    return { job, position, before: before?.job };
  });
}

function reasonOf(
  job: WaitingJob,
  state: QueueState,
  { maxRunning }: QueueSettings,
  shares: Shares,
): WaitingReason {
  if (job.estimating === true) {
    return { code: 'estimating', ahead: 0, doing: 'unknown', share: 'unknown' };
  }
  const { rooms, running, holds } = state;
  if (maxRunning !== undefined && running.length >= maxRunning) {
    return { code: 'concurrency-limit', limit: maxRunning };
  }
  const { rooms: possible, count } = candidates(rooms, job);
  const quota = shares.waitsFor(job, count);
  if (quota !== undefined) return quota;
  if (possible.some(({ otherProcessesBytes }) => !isKnown(otherProcessesBytes))) {
    return { code: 'device-not-read' };
  }
  const enough = (bytes: (room: DeviceRoom) => number) =>
    possible.filter((room) => bytes(room) >= job.bytes).length >= count;
  if (enough(({ freeBytes }) => freeBytes)) {
    const hold = holds.find(({ devices }) => possible.some(({ id }) => devices.includes(id)));
    return hold === undefined || hold.jobId === job.id
      ? { code: 'starting' }
      : { code: 'behind-job', jobId: hold.jobId };
  }
  const facts = {
    bytes: job.bytes,
    devices: count,
    wholeDevice: job.alone === true,
    freeBytes: Math.max(0, ...possible.map(({ freeBytes }) => freeBytes)),
    keptDevices: [],
  };
  if (
    !enough(
      ({ loadLineBytes, otherProcessesBytes }) =>
        loadLineBytes - (isKnown(otherProcessesBytes) ? otherProcessesBytes : 0),
    )
  ) {
    return { code: 'other-processes', ...facts };
  }
  if (enough(({ freeBytes, releasingBytes }) => freeBytes + releasingBytes)) {
    return { code: 'memory-being-released', ...facts };
  }
  const keptDevices = holds.find(({ jobId }) => jobId === job.id)?.devices ?? [];
  return { code: 'memory-in-use', ...facts, keptDevices };
}

/** The queue let run in virtual time. A job that hangs on one of unknown length is left out. */
function expectedStarts(state: QueueState, settings: QueueSettings): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let { nowMs, holds } = state;
  let waiting = state.waiting.slice(0, foreseen);
  let running: RunningJob[] = [...state.running];
  let rooms: readonly DeviceRoom[] = state.rooms.map((room) => ({
    ...room,
    freeBytes: isKnown(room.otherProcessesBytes) ? room.freeBytes + room.releasingBytes : 0,
    releasingBytes: 0,
  }));
  for (;;) {
    const admission = admit({ waiting, running, rooms, holds, nowMs }, settings);
    for (const { job, reservation } of admission.starts) {
      found.set(job.id, nowMs);
      running.push(runningFrom(job, reservation, nowMs));
      rooms = withFree(rooms, reservation.devices, -job.bytes);
    }
    waiting = waiting.filter(({ id }) => !found.has(id));
    ({ holds } = admission);
    const next = running.reduce<RunningJob | undefined>((first, job) => {
      if (!isKnown(job.expectedEndMs)) return first;
      return first && isKnown(first.expectedEndMs) && first.expectedEndMs <= job.expectedEndMs
        ? first
        : job;
    }, undefined);
    if (waiting.length === 0 || next === undefined || !isKnown(next.expectedEndMs)) return found;
    nowMs = Math.max(nowMs, next.expectedEndMs);
    running = running.filter((job) => job !== next);
    rooms = withFree(rooms, next.reservation.devices, next.reservation.bytes);
  }
}

const noHeadStart = { size: 0, length: 0, first: 0 };

/**
 * Why a job of the queue comes before the next one: what moves it ahead the most. Both are in the order
 * of `inOrder`.
 *
 * @example
 * orderReason(waiting[0], waiting[1]); // { code: 'priority', jobId: '7', priority: 5, ownPriority: 0 }
 */
export function orderReason(before: WaitingJob, job: WaitingJob): OrderReason {
  const [theirs, own] = [partsOf(before), partsOf(job)];
  const jobId = before.id;
  const earlierSeconds = own.submitted - theirs.submitted;
  // Of equals the first was submitted earlier.
  const reasons: readonly (readonly [seconds: number, reason: OrderReason])[] = [
    [earlierSeconds, { code: 'earlier', jobId, seconds: Math.max(0, Math.round(earlierSeconds)) }],
    [
      (theirs.priority - own.priority) * agingSeconds,
      { code: 'priority', jobId, priority: theirs.priority, ownPriority: own.priority },
    ],
    [theirs.size - own.size, { code: 'larger', jobId }],
    [theirs.length - own.length, { code: 'longer', jobId }],
    [theirs.first - own.first, { code: 'first-of-workload', jobId }],
  ];
  const [, strongest] = reasons.reduce((most, one) => (one[0] > most[0] ? one : most));
  return strongest;
}

interface Parts {
  readonly priority: number;
  /** In seconds of the queue. */
  readonly submitted: number;
  readonly size: number;
  readonly length: number;
  readonly first: number;
}

/** Returns the parts of a turn. */
function partsOf({ turn, priority = 0, headStart = noHeadStart }: WaitingJob): Parts {
  const { size, length, first } = headStart;
  const submitted = turn / 1000 + priority * agingSeconds + size + length + first;
  return { priority, submitted, size, length, first };
}
