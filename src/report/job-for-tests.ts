import type { JobView } from '../jobs/daemon/types.js';
import type { Attempt } from '../run/types.js';
import { GiB, MiB } from '../units/bytes.js';

/** Six seconds after the job below was sent. */
export const nowForTests = Date.parse('2026-11-15T09:00:06Z');

/** A job that waits, but for what is given. */
export function jobForTests(given: Partial<JobView> = {}): JobView {
  return {
    id: '12',
    name: 'train.py',
    owner: 'owner',
    state: 'waiting',
    reason: '',
    command: ['python', 'train.py', '--batch-size', '{batch_size}'],
    priority: 0,
    submittedAt: '2026-11-15T09:00:00.000Z',
    startedAt: null,
    endedAt: null,
    reservation: null,
    attempts: [],
    gpus: 1,
    cwd: '/srv/lab',
    need: {
      bytes: 6 * GiB,
      basis: 'stated',
      why: 'It was stated.',
      estimatedBytes: 'unknown',
      runs: 0,
    },
    waiting: {
      position: 2,
      why: 'It needs 6.0 GiB on a device; the most that is free is 2.0 GiB.',
      expectedStartAt: 'unknown',
      expiresAt: null,
    },
    usedBytes: 'unknown',
    underWay: null,
    degraded: null,
    log: { bytes: 0 },
    ...given,
  };
}

/** The same job on gpu:0. */
export function runningJobForTests(given: Partial<JobView> = {}): JobView {
  return jobForTests({
    state: 'running',
    startedAt: '2026-11-15T09:00:02.000Z',
    reservation: { devices: ['gpu:0'], bytes: 6 * GiB, basis: 'stated' },
    waiting: null,
    usedBytes: 5 * GiB,
    ...given,
  });
}

export function attemptForTests(given: Partial<Attempt> = {}): Attempt {
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
    startedAt: '2026-11-15T09:00:02.000Z',
    endedAt: '2026-11-15T09:00:04.000Z',
    exitCode: 1,
    outOfMemory: {
      kind: 'cuda',
      askedBytes: 512 * MiB,
      freeBytes: 'unknown',
      totalBytes: 'unknown',
      message: 'CUDA out of memory',
    },
    rungs: [{ rung: 'smaller-microbatch', why: 'The batch is halved.', atSeconds: 2 }],
    peakBytes: 6 * GiB,
    source: 'measured',
    peakFrom: 'nvml',
    limit: { bytes: 'none', by: 'none', why: '' },
    snapshot: null,
    ...given,
  };
}
