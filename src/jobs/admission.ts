import { isKnown, type Known } from '../units/known.js';
import type { Reservation, RunningJob, WaitingJob } from './contract.js';
import { expectedRoomMs, type Hold, holdFor, spareBytes } from './hold.js';
import type { DeviceRoom } from './ledger.js';
import { type PlacementPolicy, place } from './placement.js';

/** How many of those behind are looked at: enough to fill gaps, few enough for a millisecond. */
const lookAhead = 1000;
/**
 * How long jobs that should end in time may borrow room held for the first one. Expected run times
 * can be wrong, each time anew: after this nobody borrows, and the first one gets in.
 */
const borrowSeconds = 3600;

export interface QueueState {
  /** In order of their turn; those after the first thousand do not start before they come up. */
  readonly waiting: readonly WaitingJob[];
  readonly running: readonly RunningJob[];
  readonly rooms: readonly DeviceRoom[];
  /** What the last admission answered. */
  readonly hold: Hold | undefined;
  readonly nowMs: number;
}

export interface QueueSettings {
  readonly policy?: PlacementPolicy | undefined;
  /** Jobs that may run at the same time; no limit where it is left out. */
  readonly mostRunning?: number | undefined;
}

export interface Admission {
  readonly starts: readonly { readonly job: WaitingJob; readonly reservation: Reservation }[];
  readonly hold: Hold | undefined;
}

/**
 * Which waiting jobs start now, and where. They start in order of their turn. When one does not fit,
 * devices are held for it, and those behind it may only take what it does not need, or what they
 * should give back before it could start.
 *
 * @example
 * const { starts, hold } = admit({ waiting: list.first(1000), running, rooms: ledger.rooms(), hold, nowMs });
 * for (const { job, reservation } of starts) ledger.reserve(job.id, reservation);
 */
export function admit(state: QueueState, settings: QueueSettings = {}): Admission {
  const { policy = 'best-fit', mostRunning = Number.POSITIVE_INFINITY } = settings;
  const { nowMs } = state;
  const starts: { job: WaitingJob; reservation: Reservation }[] = [];
  const running = [...state.running];
  let rooms = state.rooms;
  let held:
    | { readonly hold: Hold; readonly head: WaitingJob; readonly roomMs: Known<number> }
    | undefined;

  for (const job of state.waiting.slice(0, lookAhead)) {
    if (running.length >= mostRunning) break;
    const offered = held === undefined ? rooms : behind(held.head, held.hold, job);
    const devices = place(offered, job, policy);
    if (devices !== undefined) start(job, devices);
    else if (held === undefined) {
      const hold = holdFor(job, rooms, running, state.hold, nowMs);
      if (hold) held = { hold, head: job, roomMs: expectedRoomMs(hold, job, rooms, running) };
    }
  }
  return { starts, hold: held?.hold ?? keptHold(state, starts, running.length >= mostRunning) };

  function start(job: WaitingJob, devices: readonly string[]): void {
    const reservation = { devices, bytes: job.bytes, basis: job.basis };
    const expectedEndMs = isKnown(job.expectedSeconds)
      ? nowMs + job.expectedSeconds * 1000
      : 'unknown';
    starts.push({ job, reservation });
    running.push({ id: job.id, turn: job.turn, reservation, expectedEndMs });
    rooms = rooms.map((room) =>
      devices.includes(room.id)
        ? {
            ...room,
            reservedBytes: room.reservedBytes + job.bytes,
            freeBytes: room.freeBytes - job.bytes,
          }
        : room,
    );
  }

  /** The rooms as one behind the head may use them. */
  function behind(head: WaitingJob, hold: Hold, job: WaitingJob): readonly DeviceRoom[] {
    if (rooms.every(({ freeBytes }) => freeBytes < job.bytes)) return [];
    const roomMs = held?.roomMs ?? 'unknown';
    const inTime =
      isKnown(job.expectedSeconds) &&
      isKnown(roomMs) &&
      nowMs + job.expectedSeconds * 1000 <= roomMs &&
      nowMs - hold.sinceMs < borrowSeconds * 1000;
    if (inTime) return rooms;
    return rooms.map((room) =>
      hold.devices.includes(room.id)
        ? { ...room, freeBytes: Math.min(room.freeBytes, spareBytes(room, head, running)) }
        : room,
    );
  }
}

/** Where no more jobs may run at all, nobody was looked at: what was held stays held. */
function keptHold(
  { hold, waiting }: QueueState,
  starts: Admission['starts'],
  full: boolean,
): Hold | undefined {
  if (!full || hold === undefined) return undefined;
  const started = starts.some(({ job }) => job.id === hold.jobId);
  return !started && waiting.some(({ id }) => id === hold.jobId) ? hold : undefined;
}
