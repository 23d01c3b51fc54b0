import { describe, expect, it } from 'vitest';
import { unevenBatch } from './even-batch.js';

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
