import { madeAttempt, madeJob, madeWaiting } from '../jobs/daemon/made-for-tests.js';
import type { JobView } from '../jobs/daemon/types.js';
import type { Attempt, RunReport } from '../run/types.js';
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

/** A run that ran out of memory once; texts from outside hold markup. */
export const runReport: RunReport = {
  schema: 1,
  tool: { name: 'plimsoll', version: '0.1.0' },
  id: '20261115-055812345-8000',
  command: ['python', '<script>alert(1)</script>', '{batch_size}'],
  outcome: 'succeeded',
  exitCode: 0,
  startedAt: '2026-11-15T05:58:12.000Z',
  endedAt: '2026-11-15T05:59:12.000Z',
  attempts: [
    {
      number: 1,
      settings: {
        batch_size: 32,
        accumulation: 1,
        checkpointing: false,
        precision: 'fp32',
        offload: false,
        device: 'gpu:0',
      },
      command: ['python'],
      startedAt: '2026-11-15T05:58:12.000Z',
      endedAt: '2026-11-15T05:58:42.000Z',
      exitCode: 1,
      outOfMemory: {
        kind: 'cuda',
        askedBytes: GiB,
        freeBytes: 0,
        totalBytes: 8 * GiB,
        message: '<b>full</b>',
      },
      rungs: [{ rung: 'smaller-microbatch', why: 'it did not fit', atSeconds: 30 }],
      peakBytes: 8 * GiB,
      source: 'measured',
      peakFrom: 'sdk',
      snapshot: null,
      holders: {
        atSeconds: 29.5,
        totalBytes: 7 * GiB,
        othersBytes: GiB,
        processes: [{ pid: 11, command: 'python <i>train.py</i>', bytes: 7 * GiB }],
      },
      limit: { bytes: 8 * GiB, by: 'sdk', why: 'by the SDK' },
    },
    {
      number: 2,
      settings: {
        batch_size: 16,
        accumulation: 2,
        checkpointing: true,
        precision: 'bf16',
        offload: false,
        device: 'gpu:0',
      },
      command: ['python'],
      startedAt: '2026-11-15T05:58:42.000Z',
      endedAt: '2026-11-15T05:59:12.000Z',
      exitCode: 0,
      outOfMemory: null,
      rungs: [],
      peakBytes: 'unknown',
      source: 'measured',
      peakFrom: 'unknown',
      snapshot: null,
      limit: { bytes: 'none', by: 'none', why: '' },
    },
  ],
  notes: ['a note'],
};
