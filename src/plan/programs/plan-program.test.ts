import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextStep, stepBelow } from '../fit/largest-batch.js';
import { batchByTraces } from './plan-program.js';

const choices = { first: 8, atMost: stepBelow, after: nextStep };

function program(bytes: (batch: number) => number | undefined) {
  const tried: number[] = [];
  const bytesOf = (batch: number) => {
    tried.push(batch);
    return Promise.resolve(bytes(batch));
  };
  return { tried, bytesOf };
}

describe('batchByTraces', () => {
  it('finds the batch of a straight line in three traces: two for the line, one to check', async () => {
    const { tried, bytesOf } = program((batch) => 10 + 3 * batch);
    const found = await batchByTraces({ bytesOf, budgetBytes: 300, choices });
    expect(found).toEqual({ batch: 96, flat: false });
    expect(tried).toEqual([8, 32, 96]);
  });

  it('finds the largest of any line, and has traced it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 1000 }),
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 40_000 }),
        async (fixed, each, budgetBytes) => {
          const { tried, bytesOf } = program((batch) => fixed + each * batch);
          const { batch } = await batchByTraces({ bytesOf, budgetBytes, choices });
          expect(batch).toBe(Math.max(0, stepBelow((budgetBytes - fixed) / each)));
          expect(tried).toContain(Math.max(1, batch));
          expect(tried.length).toBeLessThanOrEqual(8);
        },
      ),
    );
  });

  it('takes parts of a batch only, the whole of it first', async () => {
    const parts = [1, 2, 3, 4, 6, 12];
    const of12 = {
      first: 12,
      atMost: (batch: number) => parts.findLast((part) => part <= batch) ?? 0,
      after: (batch: number) => parts.find((part) => part > batch) ?? Number.POSITIVE_INFINITY,
    };
    const large = program((batch) => batch * 10);
    const search = { bytesOf: large.bytesOf, budgetBytes: 65, choices: of12 };
    expect((await batchByTraces(search)).batch).toBe(6);
    const small = program((batch) => batch);
    await batchByTraces({ bytesOf: small.bytesOf, budgetBytes: 65, choices: of12 });
    expect(small.tried).toEqual([12]);
  });

  it('ends where larger batches take no more, and says so', async () => {
    const { tried, bytesOf } = program((batch) => Math.min(batch, 20));
    const found = await batchByTraces({ bytesOf, budgetBytes: 1000, choices });
    expect(found.flat).toBe(true);
    expect(tried.length).toBeLessThanOrEqual(6);
  });

  it('ends at the first batch that the program runs as a smaller one, and answers the smaller', async () => {
    const { tried, bytesOf } = program((batch) => 100 + Math.min(batch, 50));
    const alike = (one: number, other: number) => Math.min(one, 50) === Math.min(other, 50);
    const found = await batchByTraces({ bytesOf, alike, budgetBytes: 1000, choices });
    expect(found.sameAs).toBe(tried.at(-1));
    expect(found.batch).toBe(tried.at(-2));
    expect(tried.filter((batch) => batch > 50)).toEqual([found.batch, found.sameAs]);
  });

  it('goes on where states hide a small batch: its peak is the same, what it asks for is not', async () => {
    const { bytesOf } = program((batch) => Math.max(500, 3 * batch));
    const found = await batchByTraces({ bytesOf, alike: () => false, budgetBytes: 1000, choices });
    expect(found).toEqual({ batch: stepBelow(1000 / 3), flat: false });
  });

  it('takes a batch with which the program fails for one that is too large', async () => {
    const { bytesOf } = program((batch) => (batch > 40 ? undefined : batch));
    const found = await batchByTraces({ bytesOf, budgetBytes: 1000, choices });
    expect(found.batch).toBe(40);
  });

  it('answers 0 where not even one sample fits', async () => {
    const { bytesOf } = program(() => 11);
    expect((await batchByTraces({ bytesOf, budgetBytes: 10, choices })).batch).toBe(0);
  });
});
