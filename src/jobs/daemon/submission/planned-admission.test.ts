import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../../../../test/support/project-files.js';
import { estimate } from '../../../estimate/estimate.js';
import type { Estimate } from '../../../estimate/types.js';
import { prepareEstimate } from '../../../plan/answers/answer-estimate.js';
import { answerPlan, answerPlanWithin } from '../../../plan/answers/answer-plan.js';
import type { AnswerMachine } from '../../../plan/answers/machine.js';
import { fieldWording } from '../../../plan/answers/wording.js';
import type { WorkloadRequest } from '../../../plan/answers/workload-request.js';
import { fitOf, sureBytes } from '../../../plan/fit/fit.js';
import { GiB } from '../../../units/bytes.js';
import type { NewJob } from '../../store/records.js';
import { newJobOf } from './submission.js';

// Estimates and plans are the real ones, by formula: what is admitted here is what a server admits.
const machine: AnswerMachine = {
  environment: {},
  folder: root,
  hostBytes: 64 * GiB,
  wording: fieldWording,
  gpusHere: async () => [{ id: 'gpu:0', name: 'NVIDIA H200', totalBytes: 140 * GiB }],
};
const model = (name: string) => ({
  model: join(root, `bench/truth/configs/${name}.json`),
  method: 'formula',
});
const gpt2 = { ...model('gpt2'), batch: 32, seq: 1024 };
const batchAlone = ['train', '--batch={batch_size}', '--steps={accumulation}'];

/** As a server answers it, without what other settings would save. */
async function estimated(asked: WorkloadRequest): Promise<Estimate> {
  const { notes: _, ...request } = await prepareEstimate(asked, machine);
  return estimate(request, machine);
}

function submitted(
  command: readonly string[],
  workload: WorkloadRequest,
  loadLineBytes: number,
): Promise<Omit<NewJob, 'owner'>> {
  return newJobOf(
    { command, workload, batch: workload.batch },
    {
      lines: [{ id: 'gpu:0', loadLineBytes }],
      runsOf: () => [],
      estimate: estimated,
      plan: (asked, within) => answerPlanWithin(asked, within, machine),
      signal: new AbortController().signal,
      nowMs: 0,
      waitSeconds: undefined,
    },
  );
}

/** Returns the need of a chosen job with exactly the settings it is started with. */
async function neededBy(
  { details }: Pick<NewJob, 'details'>,
  workload: WorkloadRequest,
): Promise<number> {
  const { batch, checkpointing, precision } = details.settings ?? {};
  const started = {
    ...workload,
    ...(batch !== undefined && { batch }),
    ...(checkpointing !== undefined && { checkpointing }),
    ...(precision !== undefined && { precision }),
  };
  return sureBytes(await estimated(started));
}

describe('a job that is too large, with the real planner', () => {
  it('is refused where smaller batches alone do not make it fit', async () => {
    const job = await submitted(batchAlone, gpt2, 2 * GiB);
    expect(job.refused).toMatchObject({
      code: 'too-large',
      smallest: { settings: { batch: 1, accumulation: 32 } },
    });
    expect(job.details.settings).toBeUndefined();
  });

  it.each([
    ['batch and accumulation', batchAlone, 6 * GiB, { batch: expect.any(Number) }],
    [
      'checkpointing',
      ['train', '--checkpointing={checkpointing}'],
      30 * GiB,
      { batch: 32, accumulation: 1, checkpointing: true },
    ],
    [
      'precision',
      [...batchAlone, '--precision={precision}'],
      3.5 * GiB,
      { batch: expect.any(Number), precision: 'bf16' },
    ],
  ])(
    'reserves what it needs with %s, and changes nothing else',
    async (_, command, line, changed) => {
      const job = await submitted(command, gpt2, line);
      expect(job.refused).toBeUndefined();
      const { batch = 0, accumulation = 0, ...others } = job.details.settings ?? {};
      expect(job.details.settings).toMatchObject(changed);
      expect(batch * accumulation).toBe(32);
      expect(Object.keys({ batch, ...others }).toSorted()).toEqual(
        Object.keys(changed)
          .filter((name) => name !== 'accumulation')
          .toSorted(),
      );
      expect(job.need.bytes).toBeLessThanOrEqual(line);
      expect(job.need.bytes).toBeGreaterThanOrEqual(await neededBy(job, gpt2));
    },
  );

  it('keeps a setting that was set, though its command could be told another', async () => {
    const command = [...batchAlone, '--precision={precision}'];
    const job = await submitted(command, { ...gpt2, precision: 'fp32' }, 2 * GiB);
    expect(job.refused).toMatchObject({ smallest: { bytes: expect.any(Number) } });
  });
});

describe('a job that a plan takes', () => {
  it('is taken by the queue, on the same bytes', async () => {
    const asked = { ...model('gpt2'), batch: 8, seq: 512 };
    const plan = await answerPlan({ ...asked, memoryBytes: 3 * GiB, offload: 'none' }, machine);
    const { settings, budget } = plan;
    expect(plan.surely).toBe(true);
    // Just as large as it must be: what the allocator may give back does not fit beside it.
    const line = sureBytes(plan.estimate);
    expect(line).toBeLessThanOrEqual(budget.memoryBytes);
    const { batch, precision, checkpointing, optimizer } = settings;
    const workload = { ...asked, batch, precision, checkpointing, optimizer };
    expect(await submitted(['train'], workload, line)).toMatchObject({
      need: { bytes: line, basis: 'estimated' },
    });
    expect((await submitted(['train'], workload, line - 1)).refused).toBeDefined();
  });

  it('llama-2-7b with adapters, on a line where only its cache does not fit', async () => {
    const workload = {
      ...model('llama-2-7b'),
      batch: 4,
      seq: 512,
      precision: 'bf16',
      quantization: 'int4',
      lora: 16,
      checkpointing: true,
      optimizer: 'adamw-fused',
    };
    const found = await estimated(workload);
    const { peak, interval } = found;
    expect(peak.leastCapacityBytes).toBeLessThan(peak.deviceBytes);
    const line = interval.highBytes + (peak.deviceBytes - peak.reservedBytes) - 1;
    expect(fitOf(found, line)).toBe('surely');
    const job = await submitted(['train'], workload, line);
    expect(job.refused).toBeUndefined();
    expect(job.need.bytes).toBe(line);
  });
});
