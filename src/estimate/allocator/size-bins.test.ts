import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { binCount, binOf } from './size-bins.js';
import { largestRequest } from './sizes.js';

it('puts no size into a lower bin than a smaller one, and each into one that is there', () => {
  const size = fc.double({ min: 0, max: 60, noNaN: true }).map((power) => Math.floor(2 ** power));
  fc.assert(
    fc.property(size, size, (a, b) => {
      expect(binOf(Math.min(a, b))).toBeLessThanOrEqual(binOf(Math.max(a, b)));
      expect(binOf(a)).toBeGreaterThanOrEqual(0);
      expect(binOf(a)).toBeLessThan(binCount);
    }),
    { numRuns: 2000 },
  );
  expect(binOf(largestRequest)).toBeLessThan(binCount);
});

it('has a bin for each small size', () => {
  const small = Array.from({ length: 32 }, (_, steps) => binOf(512 * steps));
  expect(small.slice(0, 17)).toEqual(Array.from({ length: 17 }, (_, bin) => bin));
  expect(new Set(small).size).toBe(24);
});
