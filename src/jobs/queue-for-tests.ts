import type { Known } from '../units/known.js';
import type { DeviceRoom } from './ledger.js';
import type { RunningJob, WaitingJob } from './types.js';
import { turnOf } from './waiting-list.js';

/** A job of so many bytes that came at that second. */
export function waitingJob(
  id: string,
  bytes: number,
  options: {
    readonly atSeconds?: number;
    readonly priority?: number;
    readonly gpus?: number;
    readonly expectedSeconds?: Known<number>;
    readonly deadlineMs?: number;
    readonly basis?: WaitingJob['basis'];
    readonly workloadKey?: string;
  } = {},
): WaitingJob {
  const {
    atSeconds = 0,
    priority = 0,
    gpus = 1,
    expectedSeconds = 'unknown',
    deadlineMs,
    basis = 'stated',
    workloadKey,
  } = options;
  const turn = turnOf(atSeconds * 1000, priority);
  return { id, bytes, basis, gpus, turn, priority, expectedSeconds, deadlineMs, workloadKey };
}

export function runningJob(
  id: string,
  bytes: number,
  devices: readonly string[],
  expectedEndMs: Known<number> = 'unknown',
): RunningJob {
  return { id, turn: -1, reservation: { devices, bytes, basis: 'stated' }, expectedEndMs };
}

/** Devices with a line of 90, filled with what runs on them. */
export function roomsWith(
  count: number,
  running: readonly RunningJob[],
  otherProcessesBytes: readonly Known<number>[] = [],
): readonly DeviceRoom[] {
  return Array.from({ length: count }, (_, index) => {
    const id = `gpu:${index}`;
    const reservedBytes = running
      .filter(({ reservation }) => reservation.devices.includes(id))
      .reduce((sum, { reservation }) => sum + reservation.bytes, 0);
    const others = otherProcessesBytes[index] ?? 0;
    const freeBytes = others === 'unknown' ? 0 : Math.max(0, 90 - reservedBytes - others);
    return {
      id,
      loadLineBytes: 90,
      otherProcessesBytes: others,
      reservedBytes,
      releasingBytes: 0,
      freeBytes,
    };
  });
}
