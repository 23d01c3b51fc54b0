import { madeAttempt, madeJob, madeWaiting } from '../jobs/daemon/made-for-tests.js';
import type { JobView } from '../jobs/daemon/types.js';
import type { Attempt } from '../run/types.js';
import { GiB, MiB } from '../units/bytes.js';

/** Six seconds after the job below was sent. */
export const nowForTests = Date.parse('2026-11-15T09:00:06Z');

/** A job that waits, but for what is given. */
export function jobForTests(given: Partial<JobView> = {}): JobView {
  return madeJob({
    id: '12',
    name: 'train.py',
    command: ['python', 'train.py', '--batch-size', '{batch_size}'],
    submittedAt: '2026-11-15T09:00:00.000Z',
    cwd: '/srv/lab',
    waiting: madeWaiting({ position: 2 }),
    ...given,
  });
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

/** An attempt that ran out of memory. */
export function attemptForTests(given: Partial<Attempt> = {}): Attempt {
  return madeAttempt({
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
    peakFrom: 'nvml',
    limit: { bytes: 'none', by: 'none', why: '' },
    ...given,
  });
}
