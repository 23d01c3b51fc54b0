import type { RunOrder } from '../../../engine/types.js';
import { changesOf } from '../../../plan/environment/job-environment.js';
import type { StoredJob } from '../../store/records.js';
import type { Reservation } from '../../types.js';

/** How often a job is tried; the same as `plimsoll run`. */
const maxAttempts = 8;

/** What is to be run for a job on the devices that it was given. */
export function runOrder(options: {
  readonly stored: StoredJob;
  readonly runId: string;
  readonly reservation: Reservation;
  readonly atMs: number;
  /** Where it runs unless it says. */
  readonly folder: string;
  readonly log: string;
  /** What a CUDA context takes of the device before the program has anything. */
  readonly contextBytes: (device: string) => number;
}): RunOrder {
  const { stored, reservation, atMs, folder, log } = options;
  const { job, details } = stored;
  const [device = 'host'] = reservation.devices;
  const { settings: degraded, workload } = details;
  const precision = degraded?.precision ?? workload?.['precision'];
  return {
    schema: 1,
    id: options.runId,
    command: job.command,
    folder: details.cwd ?? folder,
    createdAt: new Date(atMs).toISOString(),
    settings: {
      batch_size: degraded?.batch ?? details.batch ?? 'unknown',
      accumulation: degraded?.accumulation ?? 1,
      checkpointing: degraded?.checkpointing ?? workload?.['checkpointing'] === true,
      precision: typeof precision === 'string' ? precision : 'fp32',
      offload: false,
      device,
      ...(reservation.simulated === true && { simulated_device: true }),
    },
    memoryBytes: limitFor(device, reservation.bytes, stored.alone, options.contextBytes),
    maxAttempts,
    pinnedDevice: true,
    devices: reservation.devices,
    reports: [],
    log,
    environment: details.env ?? {},
    ...changesOf(details),
    account: details.account,
  };
}

/**
 * On the host the kernel holds the job to all that it was promised. On a GPU the SDK limits what
 * PyTorch takes beside the context; one with a whole device for its first run may take what is there.
 */
function limitFor(
  device: string,
  bytes: number,
  alone: boolean,
  contextBytes: (device: string) => number,
): number | null {
  if (device === 'host') return bytes;
  if (alone) return null;
  return Math.max(1, bytes - contextBytes(device));
}
