import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { batchStep, largestBatch, nextStep, previousStep, stepBelow } from './largest-batch.js';

/** A job whose peak is a line over the batch, above what its states take anyway. */
function job(fixed: number, perSample: number, floor = 0) {
  const tried: number[] = [];
  const bytesOf = async (batch: number) => {
    tried.push(batch);
    return Math.max(floor, fixed + perSample * batch);
  };
  return { tried, bytesOf };
}

describe('largestBatch', () => {
  it.each([
    [10, 3, 99, 29],
    [0, 1, 32.5, 32],
    [90, 20, 100, 0],
    [90, 10, 100.1, 1],
  ])('with %i and %i a sample in %f finds %i', async (fixed, perSample, budgetBytes, batch) => {
    const { bytesOf } = job(fixed, perSample);
    expect((await largestBatch({ bytesOf, budgetBytes })).batch).toBe(batch);
  });

  it('takes few estimates', async () => {
    const { bytesOf, tried } = job(3000, 680, 4000);
    expect((await largestBatch({ bytesOf, budgetBytes: 24_576 })).batch).toBe(31);
    expect(tried.length).toBeLessThanOrEqual(5);
  });

  it('takes fewer with a good guess, and is not misled by a bad one', async () => {
    const good = job(3000, 680, 4000);
    await largestBatch({ bytesOf: good.bytesOf, budgetBytes: 24_576, guess: 31 });
    expect(good.tried.length).toBeLessThanOrEqual(3);
    for (const guess of [1, 5000]) {
      const { bytesOf } = job(3000, 680, 4000);
      const found = await largestBatch({ bytesOf, budgetBytes: 24_576, guess });
      expect(found.batch).toBe(31);
    }
  });

  it('leaves room for a hundredth more where that costs little, and says where it does not', async () => {
    // 248 would fill the budget to the last byte; a step there is 4.
    const large = job(0, 100);
    const budgetBytes = 24_800;
    expect(await largestBatch({ bytesOf: large.bytesOf, budgetBytes })).toEqual({
      batch: 244,
      tight: false,
    });
    const small = job(0, 100);
    expect(await largestBatch({ bytesOf: small.bytesOf, budgetBytes: 3200 })).toEqual({
      batch: 32,
      tight: true,
    });
  });

  it('does not creep where memory grows in stairs', async () => {
    const tried: number[] = [];
    const bytesOf = async (batch: number) => {
      tried.push(batch);
      return 1000 * Math.ceil(batch / 40) + batch;
    };
    const { batch } = await largestBatch({ bytesOf, budgetBytes: 8400 });
    expect(batch).toBeGreaterThanOrEqual(312);
    expect(batch).toBeLessThanOrEqual(320);
    expect(tried.length).toBeLessThanOrEqual(12);
  });

  it('ends where a batch costs nothing', async () => {
    const { bytesOf } = job(10, 0);
    expect((await largestBatch({ bytesOf, budgetBytes: 100 })).batch).toBe(2 ** 20);
  });

  it('never takes more than fits, and loses at most 5 % of what does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 5000 }),
        fc.integer({ min: 1, max: 900 }),
        fc.integer({ min: 0, max: 20_000 }),
        fc.integer({ min: 1, max: 100_000 }),
        fc.integer({ min: 1, max: 3000 }),
        async (fixed, perSample, floor, budgetBytes, guess) => {
          const { bytesOf } = job(fixed, perSample, floor);
          const truth =
            floor > budgetBytes ? 0 : Math.max(0, Math.floor((budgetBytes - fixed) / perSample));
          const { batch } = await largestBatch({ bytesOf, budgetBytes, guess });
          expect(batch).toBeLessThanOrEqual(truth);
          expect(batch).toBeGreaterThanOrEqual(truth * 0.95);
        },
      ),
    );
  });

  it('never takes less of a larger budget', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 900 }),
        fc.integer({ min: 1, max: 90_000 }),
        fc.integer({ min: 0, max: 9000 }),
        async (perSample, budgetBytes, more) => {
          const { bytesOf } = job(100, perSample);
          const small = await largestBatch({ bytesOf, budgetBytes });
          const large = await largestBatch({ bytesOf, budgetBytes: budgetBytes + more });
          expect(large.batch).toBeGreaterThanOrEqual(small.batch);
        },
      ),
    );
  });
});

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
