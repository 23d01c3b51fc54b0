import type { Attempt } from '../../run/types.js';
import { GiB } from '../../units/bytes.js';
import { ownerName } from '../types.js';
import type { DeviceView, JobView } from './types.js';

/** A job that waits, first in the queue, for memory that is in use. */
export function madeJob(parts: Partial<JobView> & { readonly id: string }): JobView {
  return {
    name: `job ${parts.id}`,
    owner: ownerName,
    state: 'waiting',
    reason: '',
    reasonDetails: null,
    command: ['python', 'train.py'],
    priority: 0,
    submittedAt: '2026-01-01T00:00:00.000Z',
    reservation: null,
    attempts: [],
    startedAt: null,
    endedAt: null,
    gpus: 1,
    cwd: '/srv',
    need: {
      bytes: 6 * GiB,
      basis: 'stated',
      why: 'Stated: 6.0 GiB.',
      whyDetails: { code: 'stated', bytes: 6 * GiB, runs: 0, maxPeakBytes: 'unknown' },
      estimatedBytes: 'unknown',
      runs: 0,
    },
    waiting: madeWaiting(),
    usedBytes: 'unknown',
    currentAttempt: null,
    elastic: null,
    limit: null,
    degraded: null,
    environmentChanges: [],
    log: { bytes: 0 },
    ...parts,
  };
}

export function madeWaiting(
  parts: Partial<NonNullable<JobView['waiting']>> = {},
): NonNullable<JobView['waiting']> {
  return {
    position: 1,
    why: 'It needs 6.0 GiB on a device; the most that is free is 2.0 GiB.',
    order: '',
    orderDetails: null,
    whyDetails: {
      code: 'memory-in-use',
      bytes: 6 * GiB,
      devices: 1,
      wholeDevice: false,
      freeBytes: 2 * GiB,
      keptDevices: [],
    },
    expectedStartAt: 'unknown',
    expiresAt: null,
    ...parts,
  };
}

/** An attempt of a minute that succeeded. */
export function madeAttempt(parts: Partial<Attempt> = {}): Attempt {
  return {
    number: 1,
    settings: {
      batch_size: 32,
      accumulation: 1,
      checkpointing: false,
      precision: 'fp32',
      offload: false,
      device: 'gpu:0',
    },
    command: ['python', 'train.py'],
    startedAt: '2026-01-01T00:01:00.000Z',
    endedAt: '2026-01-01T00:02:00.000Z',
    exitCode: 0,
    outOfMemory: null,
    rungs: [],
    peakBytes: 5 * GiB,
    source: 'measured',
    peakFrom: 'sdk',
    limit: { bytes: 6 * GiB, by: 'sdk', why: '' },
    snapshot: null,
    ...parts,
  };
}

/** A device without jobs. */
export function madeDevice(parts: Partial<DeviceView> = {}): DeviceView {
  return {
    id: 'gpu:0',
    name: 'a card',
    source: 'simulated',
    provenance: 'simulated',
    totalBytes: 100 * GiB,
    usedBytes: 30 * GiB,
    freeBytes: 70 * GiB,
    processes: [],
    loadLineBytes: 90 * GiB,
    otherProcessesBytes: 0,
    reservedBytes: 0,
    releasingBytes: 0,
    availableBytes: 90 * GiB,
    reservations: [],
    forecast: {
      risk: 'none',
      probability: { within15s: 0, within60s: 0, within5min: 0.01 },
      etaSeconds: 'never',
      lowSeconds: 'never',
      highSeconds: 'never',
      confidence: 1,
      bytesPerSecond: 0,
      reason: 'Steady.',
      recommendations: [],
      provenance: 'estimated',
    },
    alerts: [],
    takesJobs: true,
    ...parts,
  };
}
