import type { Estimate, SpillPoint } from '../estimate/types.js';
import { isKnown, type Known } from '../units/known.js';
import type { DeviceRoom } from './ledger.js';
import { candidates, type PlacementPolicy, place, type Room } from './placement.js';
import type { Reservation, RunningJob, WaitingJob } from './types.js';

/** Its step may take so many times as long where `--elastic` names no number. */
export const usualSlowdown = 1.5;
/** Room that comes back in smaller pieces is not worth a message to the program. */
const leastGrowth = 0.02;

/** Another limit for a job that runs. */
export interface Resize {
  readonly jobId: string;
  readonly bytes: number;
}

/**
 * The smallest limit at which a step is predicted to take at most so many times as long; undefined
 * where nothing is predicted, or nothing below the whole need is fast enough.
 *
 * @example
 * leastElasticBytes([{ memoryBytes: 12 * GiB, slowdown: { low: 1.2, expected: 1.4, high: 1.8 } }], 1.5); // 12 GiB
 */
export function leastElasticBytes(
  curve: readonly SpillPoint[],
  slowdown: number,
): number | undefined {
  const fast = curve.filter(({ slowdown: { expected } }) => expected <= slowdown);
  return fast.length === 0 ? undefined : Math.min(...fast.map(({ memoryBytes }) => memoryBytes));
}

/** Where an elastic job may start with less than it needs, and with how much: as much as there is. */
export function placeSmaller(
  rooms: readonly Room[],
  job: WaitingJob,
  policy: PlacementPolicy,
): Reservation | undefined {
  const { leastBytes, basis, gpus } = job;
  if (leastBytes === undefined || leastBytes >= job.bytes) return undefined;
  const { rooms: possible, count } = candidates(rooms, job);
  const free = possible.map(({ freeBytes }) => freeBytes).toSorted((a, b) => b - a)[count - 1] ?? 0;
  const bytes = Math.min(job.bytes, Math.floor(free));
  if (bytes < leastBytes) return undefined;
  const devices = place(rooms, { bytes, gpus }, policy);
  return devices && { devices, bytes, basis };
}

/**
 * Running elastic jobs that give way to a job whose turn it is: those of a lower priority, the lowest
 * first. None gives way where all of them together would not be enough.
 */
export function giveRoom(
  head: WaitingJob,
  devices: readonly string[],
  rooms: readonly DeviceRoom[],
  running: readonly RunningJob[],
): readonly Resize[] {
  const resizes = new Map<string, number>();
  for (const id of devices) {
    const room = rooms.find((one) => one.id === id);
    if (room === undefined || !isKnown(room.otherProcessesBytes)) return [];
    const onIt = running.filter(({ reservation }) => reservation.devices.includes(id));
    // What was asked for and did not come yet will come.
    const coming = onIt.reduce(
      (sum, job) => sum + job.reservation.bytes - limitOf(job, resizes),
      0,
    );
    let lacking = head.bytes - room.freeBytes - room.releasingBytes - coming;
    for (const job of onIt.toSorted(byPriority)) {
      if (lacking <= 0) break;
      const { elastic, priority = 0 } = job;
      if (elastic === undefined || priority >= (head.priority ?? 0)) continue;
      const limit = limitOf(job, resizes);
      const given = Math.min(lacking, limit - elastic.leastBytes);
      if (given <= 0) continue;
      resizes.set(job.id, limit - given);
      lacking -= given;
    }
    if (lacking > 0) return [];
  }
  return [...resizes].map(([jobId, bytes]) => ({ jobId, bytes }));
}

/** Running elastic jobs that take room that nobody waits for, those of the highest priority first. */
export function takeRoom(
  rooms: readonly DeviceRoom[],
  running: readonly RunningJob[],
  heldDevices: ReadonlySet<string>,
): readonly Resize[] {
  const free = new Map(rooms.map(({ id, freeBytes }) => [id, heldDevices.has(id) ? 0 : freeBytes]));
  const resizes: Resize[] = [];
  for (const job of running.toSorted(byPriority).toReversed()) {
    const { elastic, reservation } = job;
    if (elastic === undefined || elastic.askedBytes !== undefined) continue;
    const most = Math.min(...reservation.devices.map((id) => free.get(id) ?? 0));
    const more = Math.min(Math.floor(most), elastic.needBytes - reservation.bytes);
    const isRest = more > 0 && more === elastic.needBytes - reservation.bytes;
    if (!isRest && more < elastic.needBytes * leastGrowth) continue;
    for (const id of reservation.devices) free.set(id, (free.get(id) ?? 0) - more);
    resizes.push({ jobId: job.id, bytes: reservation.bytes + more });
  }
  return resizes;
}

/** The limit that it has, or will have by what was asked of it. */
function limitOf(job: RunningJob, asked: ReadonlyMap<string, number>): number {
  return asked.get(job.id) ?? job.elastic?.askedBytes ?? job.reservation.bytes;
}

/** The lowest first; of the same, the one that came last. */
function byPriority(one: RunningJob, other: RunningJob): number {
  return (one.priority ?? 0) - (other.priority ?? 0) || other.turn - one.turn;
}

/** What stands in a job's details, checked: they may be of another version. */
export function leastBytesOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

/** The part of an estimate that says how long a step takes in less memory. */
export type SpillCurve = Pick<Estimate, 'spill'>;

/** The least that an elastic job may start with: as it was told, else as predicted. */
export function leastOf(
  elastic: { readonly slowdown: number; readonly leastBytes?: number | undefined } | undefined,
  needBytes: Known<number>,
  { spill = [] }: SpillCurve,
): number | undefined {
  if (elastic === undefined || !isKnown(needBytes)) return undefined;
  const least = elastic.leastBytes ?? leastElasticBytes(spill, elastic.slowdown);
  return least === undefined || least >= needBytes ? undefined : least;
}
