import { isKnown, type Known } from '../units/known.js';
import { giveRoom, placeSmaller, type Resize, takeRoom } from './elastic.js';
import type { DeviceRoom } from './ledger.js';
import { candidates, goesToHost, type PlacementPolicy, place, type Room } from './placement.js';
import { type QuotaOf, Shares } from './quota.js';
import type { Reservation, RunningJob, WaitingJob } from './types.js';

/** How many of those behind are looked at: enough to fill gaps, few enough for a millisecond. */
const lookAhead = 1000;
/**
 * How long jobs that should end in time may borrow room held for the first one. Expected run times
 * can be wrong, each time anew: after this no job borrows, and the first one gets in.
 */
const borrowSeconds = 3600;

export interface QueueState {
  /** As `inOrder` answers; those after the first thousand do not start before they come up. */
  readonly waiting: readonly WaitingJob[];
  readonly running: readonly RunningJob[];
  readonly rooms: readonly DeviceRoom[];
  /** What the last admission answered. */
  readonly holds: readonly Hold[];
  readonly nowMs: number;
}

export interface QueueSettings {
  readonly policy?: PlacementPolicy | undefined;
  /** Jobs that may run at the same time; no limit where it is left out. */
  readonly maxRunning?: number | undefined;
  /** What each owner may have at the same time; left out, there is no limit. */
  readonly quotaOf?: QuotaOf | undefined;
}

export interface Admission {
  readonly starts: readonly { readonly job: WaitingJob; readonly reservation: Reservation }[];
  /** One for the memory of the GPUs and one for that of the host at most. */
  readonly holds: readonly Hold[];
  /** Limits of elastic jobs that move: lower ones for the first that waits, higher ones into free room. */
  readonly resizes: readonly Resize[];
}

/**
 * Which waiting jobs start now, and where. They start in order of their turn. When one does not fit,
 * devices are held for it, and those behind it may only take what it does not need, or what they
 * should give back before it could start. GPUs and host are two queues: neither holds up the other.
 *
 * @example
 * const rooms = ledger.rooms();
 * const waiting = inOrder(list.first(1000), running, rooms);
 * const { starts, holds } = admit({ waiting, running, rooms, holds: last, nowMs });
 * for (const { job, reservation } of starts) ledger.reserve(job.id, reservation);
 */
export function admit(state: QueueState, settings: QueueSettings = {}): Admission {
  const { policy = 'best-fit', maxRunning = Number.POSITIVE_INFINITY, quotaOf } = settings;
  const { nowMs } = state;
  const starts: { job: WaitingJob; reservation: Reservation }[] = [];
  const running = [...state.running];
  const shares = new Shares(running, quotaOf);
  let rooms = state.rooms;
  /** By whether it goes to the host. */
  const heads = new Map<boolean, Held>();
  /** Worked out once for all that are behind; anew when one of them starts. */
  const spare = new Map<boolean, readonly Room[]>();

  for (const job of state.waiting.slice(0, lookAhead)) {
    if (running.length >= maxRunning) break;
    if (job.estimating === true) continue;
    // Nothing is kept free for it: only jobs of the same owner stand in its way.
    if (shares.waitsFor(job, candidates(rooms, job).count) !== undefined) continue;
    const onHost = goesToHost(rooms, job);
    const held = heads.get(onHost);
    let offered: readonly Room[] = rooms;
    if (held !== undefined && !mayBorrow(job, held, nowMs)) {
      offered = spare.get(onHost) ?? spareRooms(held, rooms, running);
      spare.set(onHost, offered);
    }
    const reservation = placed(offered, job, policy) ?? placeSmaller(offered, job, policy);
    if (reservation !== undefined) {
      starts.push({ job, reservation });
      const started = runningFrom(job, reservation, nowMs);
      running.push(started);
      shares.add(started);
      rooms = withFree(rooms, reservation.devices, -reservation.bytes);
      spare.clear();
    } else if (held === undefined) {
      const last = state.holds.find(({ jobId }) => jobId === job.id);
      const hold = holdFor(job, rooms, running, last, nowMs);
      if (hold === undefined) continue;
      heads.set(onHost, { hold, head: job, roomMs: expectedRoomMs(hold, job, rooms, running) });
    }
  }
  const found = [...heads.values()].map(({ hold }) => hold);
  const holds = running.length < maxRunning ? found : withKept(found, state, starts);
  const gives = [...heads.values()].flatMap(({ hold, head }) =>
    giveRoom(head, hold.devices, rooms, running),
  );
  const isGiving = new Set(gives.map(({ jobId }) => jobId));
  const others = running.filter(({ id }) => !isGiving.has(id));
  const takes = takeRoom(rooms, others, new Set(holds.flatMap(({ devices }) => devices)));
  return { starts, holds, resizes: [...gives, ...takes] };
}

/** With all that it needs. */
function placed(
  rooms: readonly Room[],
  job: WaitingJob,
  policy: PlacementPolicy,
): Reservation | undefined {
  if (!rooms.some(({ freeBytes }) => freeBytes >= job.bytes)) return undefined;
  const devices = place(rooms, job, policy);
  return devices && { devices, bytes: job.bytes, basis: job.basis };
}

/** A job as it runs once it starts. */
export function runningFrom(job: WaitingJob, reservation: Reservation, nowMs: number): RunningJob {
  const { id, owner, turn, expectedSeconds, workloadKey, priority, leastBytes } = job;
  const expectedEndMs = isKnown(expectedSeconds) ? nowMs + expectedSeconds * 1000 : 'unknown';
  const elastic = leastBytes === undefined ? undefined : { needBytes: job.bytes, leastBytes };
  return { id, owner, turn, reservation, expectedEndMs, workloadKey, priority, elastic };
}

/** The rooms when so much more is free on some of them. */
export function withFree(
  rooms: readonly DeviceRoom[],
  devices: readonly string[],
  bytes: number,
): readonly DeviceRoom[] {
  return rooms.map((room) =>
    devices.includes(room.id) ? { ...room, freeBytes: room.freeBytes + bytes } : room,
  );
}

/** The job whose turn it is, and what is kept for it. */
interface Held {
  readonly hold: Hold;
  readonly head: WaitingJob;
  /** When it should have room. */
  readonly roomMs: Known<number>;
}

/** Whether it may use what the head needs: if it should end before the head could start. */
function mayBorrow(
  { expectedSeconds }: WaitingJob,
  { hold, roomMs }: Held,
  nowMs: number,
): boolean {
  return (
    isKnown(expectedSeconds) &&
    isKnown(roomMs) &&
    nowMs + expectedSeconds * 1000 <= roomMs &&
    nowMs - hold.sinceMs < borrowSeconds * 1000
  );
}

/** The rooms as those behind the head may use them for longer. */
function spareRooms(
  { hold, head }: Held,
  rooms: readonly DeviceRoom[],
  running: readonly RunningJob[],
): readonly Room[] {
  return rooms.map((room) => {
    const { id, loadLineBytes, freeBytes } = room;
    const spare = hold.devices.includes(id) ? spareBytes(room, head, running) : freeBytes;
    return { id, loadLineBytes, freeBytes: Math.min(freeBytes, spare) };
  });
}

/** Where no more jobs may run at all, none was looked at: what was held stays held. */
function withKept(
  found: readonly Hold[],
  { holds, waiting }: QueueState,
  starts: Admission['starts'],
): readonly Hold[] {
  const kept = holds.filter(
    ({ jobId, devices }) =>
      !starts.some(({ job }) => job.id === jobId) &&
      waiting.some(({ id }) => id === jobId) &&
      !found.some((one) => one.devices.some((id) => devices.includes(id))),
  );
  return [...found, ...kept];
}

/** Devices that are kept for the first job that does not fit yet. */
export interface Hold {
  readonly jobId: string;
  readonly devices: readonly string[];
  readonly sinceMs: number;
}

/**
 * Keeps or chooses the devices for the job whose turn it is. Undefined where only processes that are
 * not ours stand in its way: nothing that we hold back would help it.
 *
 * The choice stays as long as it is possible. One that wandered from device to device would let the
 * job starve between them.
 */
function holdFor(
  head: WaitingJob,
  rooms: readonly DeviceRoom[],
  running: readonly RunningJob[],
  last: Hold | undefined,
  nowMs: number,
): Hold | undefined {
  const { rooms: all, count } = candidates(rooms, head);
  const possible = all.filter((room) => reachable(room) >= head.bytes);
  if (possible.length < count) return undefined;
  if (last?.devices.every((id) => possible.some((room) => room.id === id))) return last;
  const wait = new Map(possible.map((room) => [room.id, waitOf(room, head, running)]));
  const ranked = possible.toSorted((a, b) => {
    const soonest = (wait.get(a.id) ?? 0) - (wait.get(b.id) ?? 0);
    // Infinity minus itself is no number: the waits are equal then.
    return Number.isNaN(soonest) || soonest === 0 ? b.freeBytes - a.freeBytes : soonest;
  });
  return {
    jobId: head.id,
    devices: ranked.slice(0, count).map(({ id }) => id),
    sinceMs: last?.sinceMs ?? nowMs,
  };
}

/** When the devices held will have room, if running jobs end when they are expected to. */
function expectedRoomMs(
  hold: Hold,
  head: WaitingJob,
  rooms: readonly DeviceRoom[],
  running: readonly RunningJob[],
): Known<number> {
  const waits = rooms
    .filter(({ id }) => hold.devices.includes(id))
    .map((room) => waitOf(room, head, running));
  const latest = Math.max(...waits);
  return Number.isFinite(latest) ? latest : 'unknown';
}

/**
 * What jobs behind the head may take of a device that is held for it: so little that it fits beside
 * all of them. Those that came before it end sometime; those that overtook it need not.
 */
function spareBytes(room: DeviceRoom, head: WaitingJob, running: readonly RunningJob[]): number {
  const overtook = running
    .filter(({ turn, reservation }) => turn > head.turn && reservation.devices.includes(room.id))
    .reduce((total, { reservation }) => total + reservation.bytes, 0);
  return Math.max(0, reachable(room) - overtook - head.bytes);
}

/** What could be reserved if none of our jobs ran. */
function reachable({ loadLineBytes, otherProcessesBytes }: DeviceRoom): number {
  return isKnown(otherProcessesBytes) ? loadLineBytes - otherProcessesBytes : 0;
}

/** When this device alone will have room; infinite where it hangs on a job of unknown length. */
function waitOf(room: DeviceRoom, head: WaitingJob, running: readonly RunningJob[]): number {
  let free = room.freeBytes + room.releasingBytes;
  if (free >= head.bytes) return 0;
  const ends = running
    .filter(({ reservation }) => reservation.devices.includes(room.id))
    .flatMap(({ reservation, expectedEndMs }) =>
      isKnown(expectedEndMs) ? [{ at: expectedEndMs, bytes: reservation.bytes }] : [],
    )
    .toSorted((a, b) => a.at - b.at);
  for (const { at, bytes } of ends) {
    free += bytes;
    if (free >= head.bytes) return at;
  }
  return Number.POSITIVE_INFINITY;
}
