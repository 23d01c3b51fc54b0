import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { batchStep, nextStep, previousStep, stepBelow } from './batch-steps.js';

const batches = fc.integer({ min: 1, max: 2 ** 24 });

describe('batch steps', () => {
  it.each([
    [1, 1],
    [99, 1],
    [100, 2],
    [199, 2],
    [200, 4],
    [400, 8],
  ])('has steps at %i of %i', (batch, step) => {
    expect(batchStep(batch)).toBe(step);
  });

  it('never loses more than 2 %', () => {
    fc.assert(
      fc.property(batches, (batch) => {
        const below = stepBelow(batch);
        expect(below).toBeLessThanOrEqual(batch);
        expect(below).toBeGreaterThanOrEqual(batch * 0.98);
      }),
    );
  });

  it('goes up and comes back the same way', () => {
    fc.assert(
      fc.property(batches, (batch) => {
        const step = stepBelow(batch);
        expect(previousStep(nextStep(step))).toBe(step);
        expect(nextStep(step)).toBeGreaterThan(batch);
      }),
    );
    expect(previousStep(1)).toBe(0);
  });
});
