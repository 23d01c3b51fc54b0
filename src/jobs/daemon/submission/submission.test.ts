import { describe, expect, it } from 'vitest';
import type { Estimate } from '../../../estimate/types.js';
import { Failure } from '../../../failure.js';
import type { Plan } from '../../../plan/fit/types.js';
import { GiB } from '../../../units/bytes.js';
import type { JobRequest } from '../types.js';
import type { ProgramJob } from './program-need.js';
import { nameOf, newJobOf, type SubmissionParts } from './submission.js';

const lines = [
  { id: 'gpu:0', loadLineBytes: 72 * GiB },
  { id: 'host', loadLineBytes: 200 * GiB },
];

function estimate(reservedGiB: number): Estimate {
  const reservedBytes = reservedGiB * GiB;
  const deviceBytes = reservedBytes + GiB;
  return {
    method: 'trace',
    peak: {
      allocatedBytes: reservedBytes,
      reservedBytes,
      deviceBytes,
      leastCapacityBytes: deviceBytes,
    },
    interval: { lowBytes: reservedBytes, highBytes: reservedBytes + GiB, confidence: 0.95 },
    breakdown: [],
    notes: [],
  };
}

function plan(batch: number, accumulation: number, reservedGiB: number): Plan {
  return {
    settings: {
      batch,
      accumulation,
      checkpointing: false,
      precision: 'fp32',
      quantization: 'none',
      offload: 'none',
      optimizer: 'adamw',
      lora: 'none',
      gpus: 1,
      zero: 0,
    },
    fits: true,
    surely: true,
    estimate: estimate(reservedGiB),
    hostBytes: 0,
    relativeCost: 1,
    concession: 'speed',
    givesUp: [],
    alternatives: [],
    notes: [],
  };
}

const request = (parts: Partial<JobRequest> = {}): JobRequest => ({
  command: ['python', 'train.py'],
  ...parts,
});
const made = (asked: JobRequest, parts: Partial<SubmissionParts> = {}) =>
  newJobOf(asked, {
    lines,
    runsOf: () => [],
    estimate: undefined,
    plan: undefined,
    signal: new AbortController().signal,
    nowMs: 1_000_000,
    waitSeconds: undefined,
    ...parts,
  });
const workload = { model: '/m/config.json', batch: 32 };
const tellable = ['python', 'train.py', '--batch={batch_size}', '--steps={accumulation}'];

describe('newJobOf', () => {
  it('keeps what was asked for', async () => {
    const job = await made(
      request({
        memoryBytes: 6 * GiB,
        priority: 3,
        timeoutSeconds: 60,
        env: { A: 'b' },
        cwd: '/tmp',
        submission: 's',
      }),
    );
    expect(job).toMatchObject({
      name: 'python train.py',
      priority: 3,
      need: { bytes: 6 * GiB, basis: 'stated', gpus: 1 },
      deadlineMs: 1_060_000,
      submission: 's',
      details: { cwd: '/tmp', env: { A: 'b' } },
    });
  });

  it('lets a job wait as long as all do that say nothing', async () => {
    expect((await made(request(), { waitSeconds: 5 })).deadlineMs).toBe(1_005_000);
    expect((await made(request())).deadlineMs).toBeUndefined();
  });

  it('traces a program that states nothing, and says so', async () => {
    const asked: ProgramJob[] = [];
    const estimateProgram = (job: ProgramJob) => {
      asked.push(job);
      return Promise.resolve(estimate(10));
    };
    const command = ['python', 'train.py', '--batch={batch_size}', '{torch_device}'];
    const job = await made(request({ command, batch: 4, cwd: '/srv' }), { estimateProgram });
    expect(job).toMatchObject({
      need: { bytes: 12 * GiB, basis: 'estimated' },
      alone: false,
      details: { evidence: { estimatedBytes: 12 * GiB } },
    });
    expect(job.details.evidence?.reason).toEqual({
      code: 'estimated',
      bytes: 12 * GiB,
      traced: true,
    });
    expect(asked).toMatchObject([
      {
        command: ['python', 'train.py', '--batch=4', 'cuda:0'],
        folder: '/srv',
        variables: { PLIMSOLL_BATCH_SIZE: '4' },
        timeoutSeconds: 120,
      },
    ]);
  });

  it('gives a whole device to a program that could not be traced, and says why', async () => {
    const fact = 'The trace took longer than 5 s and was ended.';
    const failure = new Failure({ kind: 'missing', code: 'trace-timed-out', fact, next: 'Wait.' });
    const job = await made(request({ estimateTimeoutSeconds: 5 }), {
      estimateProgram: ({ timeoutSeconds }) =>
        timeoutSeconds === 5 ? Promise.reject(failure) : Promise.resolve(estimate(1)),
    });
    expect(job).toMatchObject({ need: { basis: 'unknown' }, alone: true });
    expect(job.details.evidence?.reason).toEqual({ code: 'no-estimate', traceFailure: fact });
  });

  it.each([
    ['stated its memory', { memoryBytes: GiB }, {}],
    ['asked for no trace', { estimateTimeoutSeconds: 0 }, {}],
    ['is no Python program', { command: ['sh', 'train.sh'] }, {}],
    ['takes several GPUs', { gpus: 2 }, {}],
    ['takes the memory of the host', { gpus: 0 }, {}],
    [
      'was measured before',
      {},
      { runsOf: () => [{ peakBytes: GiB, askedBytes: 'none', seconds: 1 } as const] },
    ],
  ])('does not trace one that %s', async (_, asked, parts) => {
    const estimateProgram = () => Promise.reject(new Error('it was traced'));
    await expect(made(request(asked), { ...parts, estimateProgram })).resolves.toBeDefined();
  });

  it('gives all of a device where only the interval of a trace reaches beyond it', async () => {
    const wide = estimate(70);
    const interval = { ...wide.interval, lowBytes: 40 * GiB, highBytes: 140 * GiB };
    const job = await made(request(), {
      estimateProgram: () => Promise.resolve({ ...wide, interval }),
    });
    expect(job.need).toMatchObject({ bytes: 72 * GiB, basis: 'estimated' });
    expect(job.refused).toBeUndefined();
    const large = await made(request(), { estimateProgram: () => Promise.resolve(estimate(90)) });
    expect(large.refused).toMatchObject({ code: 'too-large', bytes: 92 * GiB });
  });

  it('estimates a workload, and what was measured corrects that', async () => {
    const parts = { estimate: () => Promise.resolve(estimate(10)) };
    const job = await made(request({ workload }), parts);
    // The upper end of the interval, and the context.
    expect(job.need).toEqual({ bytes: 12 * GiB, basis: 'estimated', gpus: 1 });
    const runs = [{ peakBytes: 20 * GiB, askedBytes: 'none', seconds: 1 } as const];
    const corrected = await made(request({ workload }), { ...parts, runsOf: () => runs });
    expect(corrected.need).toEqual({ bytes: 22 * GiB, basis: 'measured', gpus: 1 });
    expect(corrected.details.evidence).toMatchObject({ estimatedBytes: 12 * GiB, runs: 1 });
  });

  it('takes runs on the host for another workload than runs on a GPU', async () => {
    const onGpu = await made(request());
    const onHost = await made(request(), { lines: lines.slice(1) });
    const asked = await made(request({ gpus: 0 }));
    expect(new Set([onGpu, onHost, asked].map((job) => job.workloadKey)).size).toBe(3);
    expect(onHost.need.bytes).toBe(200 * GiB);
  });

  it('degrades by the plan a job that is too large, where its program can be told', async () => {
    const asked: unknown[] = [];
    const parts: Partial<SubmissionParts> = {
      estimate: () => Promise.resolve(estimate(100)),
      plan: (_, within) => {
        asked.push(within);
        return Promise.resolve(plan(8, 4, 50));
      },
    };
    const job = await made(request({ command: tellable, workload, batch: 32 }), parts);
    expect(asked).toEqual([{ capacityBytes: 72 * GiB, mayChange: ['accumulation'] }]);
    expect(job).toMatchObject({
      need: { bytes: 52 * GiB, basis: 'estimated' },
      details: {
        settings: { batch: 8, accumulation: 4 },
        degradedReason: expect.objectContaining({ code: 'degraded' }),
        batch: 32,
      },
    });
    expect(job.refused).toBeUndefined();
    const deaf = await made(request({ workload }), parts);
    expect(deaf.refused).toMatchObject({
      code: 'too-large',
      bytes: 102 * GiB,
      basis: 'estimated',
      missesPlaceholders: true,
    });
    expect(asked).toHaveLength(1);
  });

  it('refuses a job whose plan changes nothing, though its runs took more than there is', async () => {
    const runs = [{ peakBytes: 80 * GiB, askedBytes: 'none', seconds: 1 } as const];
    const job = await made(request({ command: tellable, workload, batch: 32 }), {
      estimate: () => Promise.resolve(estimate(50)),
      plan: () => Promise.resolve(plan(32, 1, 50)),
      runsOf: () => runs,
    });
    expect(job.refused).toMatchObject({
      code: 'too-large',
      bytes: 88 * GiB,
      basis: 'measured',
    });
  });

  it('plans nothing for what has no model to plan with', async () => {
    const parts: Partial<SubmissionParts> = {
      estimate: () => Promise.resolve(estimate(100)),
      plan: () => Promise.reject(new Error('was asked')),
    };
    const script = { script: '/s/train.py' };
    const job = await made(request({ command: tellable, workload: script }), parts);
    expect(job.refused).toMatchObject({
      code: 'too-large',
      bytes: 102 * GiB,
      basis: 'estimated',
    });
  });

  it('knows no figure for a job of which nothing is known', async () => {
    const job = await made(request());
    expect(job.need).toEqual({ bytes: 72 * GiB, basis: 'unknown', gpus: 1 });
    expect(job.alone).toBe(true);
  });

  it('refuses what was stated too large, whatever a plan would say', async () => {
    const parts = { plan: () => Promise.resolve(plan(1, 32, 1)) };
    const asked = request({ command: tellable, workload, memoryBytes: 80 * GiB });
    expect((await made(asked, parts)).refused).toMatchObject({
      code: 'too-large',
      bytes: 80 * GiB,
      basis: 'stated',
    });
  });
});

describe('nameOf', () => {
  it('is short enough for a line', () => {
    expect(nameOf(['/usr/bin/python', 'a  b\nc'])).toBe('python a b c');
    expect(nameOf(['x'.repeat(100)])).toHaveLength(60);
  });
});
