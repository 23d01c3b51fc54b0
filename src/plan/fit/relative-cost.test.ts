import { describe, expect, it } from 'vitest';
import { type CostOf, relativeCost } from './relative-cost.js';
import type { Configuration } from './types.js';

const plain: Configuration = {
  checkpointing: false,
  precision: 'amp-bf16',
  optimizer: 'adamw-fused',
  offload: 'none',
  zero: 0,
  concession: 'speed',
  givesUp: [],
};
const large: CostOf = {
  mode: 'train',
  batch: 64,
  accumulation: 1,
  gpus: 1,
  tokensPerSample: 2048,
};

function against(change: Partial<Configuration>, of: Partial<CostOf> = {}): number {
  return relativeCost({ ...plain, ...change }, { ...large, ...of }) / relativeCost(plain, large);
}

describe('relativeCost', () => {
  it('counts the forward pass twice with checkpointing', () => {
    expect(against({ checkpointing: true })).toBeCloseTo(4 / 3, 10);
  });

  it('is about 1 where a GPU has enough to do', () => {
    expect(relativeCost(plain, large)).toBeCloseTo(1, 2);
  });

  it('grows as the batch is split, slowly at first', () => {
    const halves = against({}, { batch: 32, accumulation: 2 });
    const single = against({}, { batch: 1, accumulation: 64 });
    expect(halves).toBeGreaterThan(1);
    expect(halves).toBeLessThan(1.01);
    expect(single).toBeGreaterThan(halves);
  });

  it('makes a step on the host dearer the less there is to do in it', () => {
    const offload = 'optimizer';
    expect(against({ offload })).toBeCloseTo(1.15, 1);
    expect(against({ offload }, { batch: 1 })).toBeGreaterThan(5);
  });

  it('exchanges 1, 1, 1 and 1.5 times as much with ZeRO 0 to 3', () => {
    const traffic = ([0, 1, 2, 3] as const).map((zero) => {
      const configuration = { ...plain, zero };
      return (
        relativeCost(configuration, { ...large, gpus: 8 }) -
        relativeCost(configuration, { ...large, gpus: 1 })
      );
    });
    const [base = 0] = traffic;
    expect(traffic.map((one) => Number((one / base).toFixed(6)))).toEqual([1, 1, 1, 1.5]);
  });

  it('knows no optimizer in inference', () => {
    const infer = { ...large, mode: 'infer' } as const;
    expect(relativeCost({ ...plain, optimizer: 'adafactor' }, infer)).toBe(
      relativeCost(plain, infer),
    );
  });
});
