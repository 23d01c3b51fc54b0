import { describe, expect, it } from 'vitest';
import { MiB } from '../../../units/bytes.js';
import { columnSumScratch } from './linear.js';

describe('columnSumScratch', () => {
  it('asks for what an H200 was seen to ask for', () => {
    // The columns of BERT's embedding and of its wide layers, in the recorded run with Adafactor.
    expect(columnSumScratch(30_522, 768)[0]).toBe(132 * MiB);
    expect(columnSumScratch(3072, 768)[0]).toBe(18 * MiB);
  });

  it('asks for nothing where one block sums it all', () => {
    expect(columnSumScratch(256, 768)).toEqual([]);
    expect(columnSumScratch(1, 1)).toEqual([]);
  });
});
