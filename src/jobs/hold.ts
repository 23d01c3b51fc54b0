import { isKnown, type Known } from '../units/known.js';
import type { DeviceRoom } from './ledger.js';
import { candidates } from './placement.js';
import type { RunningJob, WaitingJob } from './types.js';

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
export function holdFor(
  head: WaitingJob,
  rooms: readonly DeviceRoom[],
  running: readonly RunningJob[],
  last: Hold | undefined,
  nowMs: number,
): Hold | undefined {
  const { rooms: all, count } = candidates(rooms, head);
  const possible = all.filter((room) => reachable(room) >= head.bytes);
  if (possible.length < count) return undefined;
  const kept = last?.jobId === head.id ? last : undefined;
  if (kept?.devices.every((id) => possible.some((room) => room.id === id))) return kept;
  const wait = new Map(possible.map((room) => [room.id, waitOf(room, head, running)]));
  const ranked = possible.toSorted((a, b) => {
    const soonest = (wait.get(a.id) ?? 0) - (wait.get(b.id) ?? 0);
    // Infinity minus itself is no number: the waits are equal then.
    return Number.isNaN(soonest) || soonest === 0 ? b.freeBytes - a.freeBytes : soonest;
  });
  return {
    jobId: head.id,
    devices: ranked.slice(0, count).map(({ id }) => id),
    sinceMs: kept?.sinceMs ?? nowMs,
  };
}

/** When the devices held will have room, if running jobs end when they are expected to. */
export function expectedRoomMs(
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
export function spareBytes(
  room: DeviceRoom,
  head: WaitingJob,
  running: readonly RunningJob[],
): number {
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
