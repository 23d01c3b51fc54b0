import { describe, expect, it } from 'vitest';
import type { Estimate } from '../../estimate/types.js';
import { GiB } from '../../units/bytes.js';
import { planOfSharding, unevenBatch } from './answer-plan.js';

describe('unevenBatch', () => {
  it('says what a step takes instead, and with how many GPUs nothing changes', () => {
    expect(unevenBatch(20, 8)).toBe(
      'A batch of 20 cannot be split evenly over 8 GPUs: a step takes 24 samples, 3 on each GPU. With 10 GPUs it stays 20.',
    );
    expect(unevenBatch(3, 8)).toMatch(/a step takes 8 samples, 1 on each GPU\.$/);
  });

  it('says nothing where the batch is kept', () => {
    expect([unevenBatch(16, 8), unevenBatch(8, 8)]).toEqual([undefined, undefined]);
  });
});

const peakOf = (bytes: number) => ({
  allocatedBytes: bytes,
  reservedBytes: bytes,
  deviceBytes: bytes,
  leastCapacityBytes: bytes,
});
const estimate: Estimate = {
  method: 'trace',
  peak: peakOf(2 * GiB),
  interval: { lowBytes: GiB, highBytes: 2 * GiB, confidence: 0.95 },
  breakdown: [],
  notes: [],
};
const facts = {
  capacityBytes: 3 * GiB,
  gpus: 16,
  tokensPerSample: 1024,
  bfloat16: true,
  transformers: true,
};
const ddp = {
  parallel: { way: 'ddp', gpus: 16 },
  precision: 'amp-bf16',
  optimizer: 'adamw-fused',
  checkpointing: false,
  batch: 1,
  accumulation: 1,
  peak: peakOf(5 * GiB),
  fit: 'no',
  givesUp: 'nothing',
} as const;
const kept = {
  ...ddp,
  parallel: { way: 'fsdp2', gpus: 16, reshard: false },
  peak: peakOf(2 * GiB),
  fit: 'surely',
} as const;

describe('planOfSharding', () => {
  it('is the method that was chosen, and says of the others what their traces said', () => {
    const plan = planOfSharding({ chosen: kept, tried: [ddp, kept], estimate }, facts);
    expect(plan).toMatchObject({ fits: true, surely: true, estimate });
    expect(plan?.settings).toMatchObject({ gpus: 16, zero: 2, batch: 1, lora: 'none' });
    expect(plan?.alternatives).toMatchObject([
      { fits: false, surely: false, settings: { zero: 0 }, peak: ddp.peak },
    ]);
  });

  it('does not fit where nothing was chosen, and is not known where nothing was traced', () => {
    expect(planOfSharding({ tried: [ddp], estimate }, facts)).toMatchObject({
      fits: false,
      surely: false,
    });
    expect(planOfSharding({ tried: [ddp] }, facts)).toBeUndefined();
  });
});
