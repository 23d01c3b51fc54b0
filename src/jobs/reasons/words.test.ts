import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { madeAttempt } from '../daemon/made-for-tests.js';
import type { DegradedReason, JobReason, OveruseWarning, WaitingReason } from './types.js';
import { reasonWords, waitingReasonWords } from './words.js';

const tooLarge = { bytes: 80 * GiB, basis: 'stated', gpus: 1, largestBytes: 72 * GiB } as const;
const settings = { batch: 8, accumulation: 4, checkpointing: true, precision: 'bf16' } as const;
const used = { usedBytes: 20 * GiB, reservedBytes: 10 * GiB };

const cases: readonly (readonly [JobReason | DegradedReason | OveruseWarning, string])[] = [
  [{ code: 'no-device' }, 'There is no device for jobs.'],
  [
    { code: 'too-few-gpus', askedGpus: 3, foundGpus: 2 },
    'It asks for 3 GPUs at once; there are 2.',
  ],
  [
    { code: 'too-few-gpus', askedGpus: 2, foundGpus: 0 },
    'It asks for 2 GPUs at once; there is none.',
  ],
  [
    { code: 'too-large', ...tooLarge },
    'It needs 80.0 GiB (stated); the largest reservation any device allows is 72.0 GiB.',
  ],
  [
    { code: 'too-large', ...tooLarge, gpus: 2, missesPlaceholders: true },
    'It needs 80.0 GiB (stated); the largest reservation each of 2 GPUs allows is 72.0 GiB. With {batch_size} and {accumulation} in its command it could be given smaller batches.',
  ],
  [
    { code: 'too-large', ...tooLarge, smallest: { settings, bytes: 73 * GiB } },
    'It needs 80.0 GiB (stated); the largest reservation any device allows is 72.0 GiB. With batch 8 x 4, checkpointing and bf16, the smallest settings that its command takes, it still needs 73.0 GiB.',
  ],
  [
    {
      code: 'over-quota',
      owner: 'ada',
      bytes: 60 * GiB,
      basis: 'stated',
      maxMemoryBytes: 40 * GiB,
    },
    'It needs 60.0 GiB (stated); ada may reserve 40.0 GiB at the same time.',
  ],
  [
    {
      code: 'over-quota',
      owner: 'ada',
      bytes: 60 * GiB,
      basis: 'unknown',
      maxMemoryBytes: 40 * GiB,
    },
    'Nothing is known of its memory, so it would get a whole device (60.0 GiB); ada may reserve 40.0 GiB at the same time. State its memory.',
  ],
  [
    { code: 'degraded', ...tooLarge, settings, degradedBytes: 60 * GiB },
    'As asked, it needs 80.0 GiB (stated); the largest reservation any device allows is 72.0 GiB. It runs with batch 8 x 4, checkpointing and bf16 instead, which needs 60.0 GiB (estimated).',
  ],
  [{ code: 'cancelled', during: 'running' }, 'Cancelled.'],
  [{ code: 'cancelled', during: 'waiting' }, 'Cancelled while it waited.'],
  [{ code: 'expired' }, 'It waited as long as it was allowed to, and never started.'],
  [
    { code: 'recovered', times: 1, settings: madeAttempt().settings },
    'It ran out of memory once and was recovered with batch 32 x 1, on gpu:0.',
  ],
  [
    { code: 'out-of-memory', times: 2, askedBytes: 96 * MiB, peakBytes: 4 * GiB },
    'It ran out of memory 2 times; the last time it asked for 96.0 MiB when it held 4.0 GiB.',
  ],
  [
    { code: 'out-of-memory', times: 1, askedBytes: 'unknown', peakBytes: 'unknown' },
    'It ran out of memory once.',
  ],
  [{ code: 'exited', exitCode: 3, signal: null }, 'It ended with exit code 3.'],
  [
    { code: 'exited', exitCode: 139, signal: 'SIGSEGV' },
    'It was ended by SIGSEGV (exit code 139).',
  ],
  [{ code: 'exited', exitCode: 'unknown', signal: null }, 'How it ended is unknown.'],
  [
    { code: 'interrupted', exitCode: 143, signal: 'SIGTERM' },
    'It was interrupted from outside. It was ended by SIGTERM (exit code 143).',
  ],
  [
    { code: 'over-reservation', ...used },
    'Ended: It uses 20.0 GiB of a device; it reserved 10.0 GiB, and it was warned.',
  ],
  [
    { code: 'over-reservation-warning', ...used, graceSeconds: 10 },
    'It uses 20.0 GiB of a device; it reserved 10.0 GiB. If it still does in 10 s, it is ended.',
  ],
  [
    { code: 'over-reservation-warning', ...used, graceSeconds: null },
    'It uses 20.0 GiB of a device; it reserved 10.0 GiB.',
  ],
  [{ code: 'lost', message: 'Its supervisor ended.' }, 'Its supervisor ended.'],
  [{ code: 'not-started', message: 'No such program.' }, 'No such program.'],
  [
    { code: 'damaged-record', column: 'command' },
    'Its row in the store is damaged (command): it cannot be run or shown. Submit it again.',
  ],
  [{ code: 'earlier-text', text: 'As it was.' }, 'As it was.'],
];

const memory = { bytes: 8 * GiB, devices: 1, wholeDevice: false, freeBytes: GiB, keptDevices: [] };
const waitingCases: readonly (readonly [WaitingReason, string])[] = [
  [{ code: 'concurrency-limit', limit: 4 }, 'The concurrent-job limit (4) is reached.'],
  [
    { code: 'job-quota', owner: 'bob', maxJobs: 1, runningJobs: 1 },
    'Quota: bob may run 1 job at the same time, and 1 of them runs.',
  ],
  [
    { code: 'memory-quota', owner: 'ada', bytes: 20, maxMemoryBytes: 40, reservedBytes: 30 },
    'Quota: it needs 20 B; ada may reserve 40 B at the same time and has 30 B.',
  ],
  [{ code: 'device-not-read' }, 'A device has not been read yet.'],
  [{ code: 'starting' }, 'It is about to start.'],
  [
    { code: 'behind-job', jobId: '7' },
    'It would fit, but would take room from job 7, whose turn comes first.',
  ],
  [
    { code: 'memory-in-use', ...memory, keptDevices: ['gpu:0'] },
    'It needs 8.0 GiB on a device; the most that is free is 1.0 GiB. gpu:0 is kept for it.',
  ],
  [
    { code: 'memory-in-use', ...memory, wholeDevice: true },
    'It needs a whole device for its first run; the most that is free is 1.0 GiB.',
  ],
  [
    { code: 'other-processes', ...memory, devices: 2 },
    'It needs 8.0 GiB on 2 devices at once; the most that is free is 1.0 GiB. Other processes are using the memory.',
  ],
  [
    { code: 'memory-being-released', ...memory },
    'It needs 8.0 GiB on a device; the most that is free is 1.0 GiB. Memory of a job that ended has not been freed yet.',
  ],
  [{ code: 'jobs-ahead', jobs: 1 }, '1 job is before it.'],
  [{ code: 'jobs-ahead', jobs: 120 }, '120 jobs are before it.'],
];

describe('the words of a reason', () => {
  it.each(cases)('%j', (reason, words) => expect(reasonWords(reason)).toBe(words));
});

describe('the words of a wait', () => {
  it.each(waitingCases)('%j', (reason, words) => expect(waitingReasonWords(reason)).toBe(words));
});
