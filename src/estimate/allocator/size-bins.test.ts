import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { AddressRegion } from './address-region.js';
import { binCount, binOf } from './size-bins.js';
import { blockSizeFor, largestRequest, segmentSizeFor } from './sizes.js';

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

const four = Array.from({ length: 16 }, () => 4);

it.each([
  [1, [], 512],
  [512, [], 512],
  [513, [], 1024],
  [1000, [], 1024],
  [512, four, 512],
  [2048, four, 2048],
  [2049, four, 2560],
  [MiB, four, MiB],
  [MiB + 1, four, 1.25 * MiB],
  [1200 * MiB, four, 1280 * MiB],
  [1200 * MiB + 1, [...four.slice(0, 10), 1], 1200 * MiB + 512],
  [1200 * MiB, [...four.slice(0, 10), 8], 1280 * MiB],
  [1100 * MiB, [...four.slice(0, 10), 8], 1152 * MiB],
  [2 ** 40 + 1, [...four.slice(0, 15), 2], 2 ** 40 + 2 ** 39],
])('a request of %i bytes with divisions %j takes a block of %i', (bytes, divisions, size) => {
  expect(blockSizeFor(bytes, divisions)).toBe(size);
});

it.each([
  [512, 2],
  [MiB, 2],
  [MiB + 512, 12],
  [10 * MiB - 512, 12],
  [10 * MiB, 10],
  [10 * MiB + 512, 12],
  [31 * MiB, 32],
])('a block of %i bytes asks the driver for %i MiB', (bytes, segment) => {
  expect(segmentSizeFor(bytes, 12 * MiB) / MiB).toBe(segment);
});

it('gives out the smallest hole of a region that is large enough, and joins what touches', () => {
  const region = new AddressRegion(1000, 100, false, 7);
  expect([region.isEmpty, region.largestHole()]).toEqual([false, 0]);
  region.give(1000, 10);
  region.give(1050, 30);
  region.give(1020, 20);
  expect(region.largestHole()).toBe(30);
  // The lower of the two that fit is the smaller one.
  expect(region.take(15)).toBe(1020);
  expect(region.take(10)).toBe(1000);
  expect(() => region.take(31)).toThrow('No hole has 31 bytes');
  region.give(1040, 10);
  expect(region.largestHole()).toBe(45);
  const copy = region.copy();
  region.give(1000, 35);
  region.give(1080, 20);
  expect([region.isEmpty, region.largestHole(), copy.largestHole()]).toEqual([true, 100, 45]);
  const lasting = new AddressRegion(0, 8, true, 0);
  lasting.give(0, 8);
  expect(lasting.isEmpty).toBe(false);
});
