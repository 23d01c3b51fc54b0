import { describe, expect, it } from 'vitest';
import type { Workload } from '../../estimate/types.js';
import { facts, fakeEstimate, fakeJudge } from './estimates-for-tests.js';
import { planMaxBatch } from './plan-max-batch.js';

/** States of 16,000 in fp32, 50 of context, 100 a sample. */
const wishes = { mode: 'train', sequence: 512 } as const;

describe('planMaxBatch', () => {
  it('keeps all else as an estimate takes it, and finds the largest batch', async () => {
    const { judge, asked } = fakeJudge();
    const plan = await planMaxBatch(wishes, { ...facts, capacityBytes: 18_000 }, { judge });
    expect(plan.settings).toMatchObject({
      batch: 19,
      accumulation: 1,
      precision: 'fp32',
      optimizer: 'adamw',
      checkpointing: false,
      quantization: 'none',
    });
    expect(plan).toMatchObject({ fits: true, relativeCost: 1 });
    expect(plan.estimate.peak.leastCapacityBytes).toBe(17_950);
    for (const { batch: _, ...rest } of asked) {
      expect(rest).toEqual({
        mode: 'train',
        sequence: 512,
        precision: 'fp32',
        optimizer: 'adamw',
        checkpointing: false,
      });
    }
  });

  it('shows what else it tried', async () => {
    const plan = await planMaxBatch(wishes, { ...facts, capacityBytes: 18_000 }, fakeJudge());
    const batches = plan.alternatives.map(({ settings, fits }) => [settings.batch, fits]);
    expect(batches).toContainEqual([20, false]);
    expect(batches).not.toContainEqual([19, true]);
  });

  it('says how much is missing where not one sample fits', async () => {
    const plan = await planMaxBatch(wishes, { ...facts, capacityBytes: 16_100 }, fakeJudge());
    expect(plan).toMatchObject({ fits: false, settings: { batch: 1 } });
    expect(plan.notes.join()).toContain('Not even one sample fits: 50 B are missing.');
  });

  it('starts at a batch that was given, or where a guide says', async () => {
    const small = { ...facts, capacityBytes: 18_000 };
    const given = fakeJudge();
    await planMaxBatch({ ...wishes, batch: 19 }, small, given);
    expect(given.asked[0]?.batch).toBe(19);
    const guided = fakeJudge();
    const guide = async (workload: Workload) => fakeEstimate(workload);
    await planMaxBatch(wishes, small, { ...guided, guide });
    expect(guided.asked.length).toBeLessThanOrEqual(2);
  });

  it('passes a failure on: there is no other way to fall back to', async () => {
    let count = 0;
    const judge = async (workload: Workload) => {
      count += 1;
      if (count > 1) throw new Error('no');
      return fakeEstimate(workload);
    };
    await expect(planMaxBatch(wishes, facts, { judge })).rejects.toThrow('no');
  });
});
