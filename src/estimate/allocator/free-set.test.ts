import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { BlockTable, none } from './block-table.js';
import { AddressRegion } from './driver-addresses.js';
import { binCount, binOf, FreeSet } from './free-set.js';
import { blockSizeFor, largestRequest, segmentSizeFor } from './settings.js';

/** Many more blocks than there are bins. */
const blockCount = 5000;

function filled(sizeOf: (block: number) => number) {
  const blocks = new BlockTable();
  const set = new FreeSet(blocks);
  // Not in the order of their addresses, so that they come into the middle of bins too.
  const order = Array.from({ length: blockCount }, (_, index) => (index * 1777) % blockCount);
  for (const index of order) set.insert(blocks.add(index * 512, sizeOf(index), 0, -1));
  return { blocks, set };
}

function inOrder({ size, address }: BlockTable, ids: readonly number[]): number[] {
  return ids.toSorted(
    (a, b) => (size[a] ?? 0) - (size[b] ?? 0) || (address[a] ?? 0) - (address[b] ?? 0),
  );
}

describe('FreeSet', () => {
  it('finds the smallest block that is large enough, the lowest of equals, in every bin', () => {
    const { blocks, set } = filled((index) => 512 * (1 + (index % 40)));
    expect(set.all()).toEqual(inOrder(blocks, set.all()));
    for (let step = 1; step <= 40; step += 1) {
      const found = set.firstOf(512 * step);
      expect(blocks.size[found]).toBe(512 * step);
      expect(blocks.address[found]).toBe((step - 1) * 512);
    }
    expect(set.firstOf(512 * 41)).toBe(none);
  });

  it('goes through all blocks with after()', () => {
    const { set } = filled((index) => 512 * (1 + (index % 7)) ** 9);
    const seen: number[] = [];
    for (let block = set.firstOf(1); block !== none; block = set.after(block)) seen.push(block);
    expect(seen).toEqual(set.all());
    expect(seen.length).toBe(blockCount);
  });

  it('stays in order whatever is removed, resized or released', () => {
    const change = fc.record({
      kind: fc.constantFrom('remove' as const, 'resize' as const),
      which: fc.nat(blockCount),
      // Small ones, which have bins of their own, and those that share one.
      size: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 61, max: 2 ** 41 })),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 300, size: 'max' }), (changes) => {
        const { blocks, set } = filled((index) => 512 * (1 + (index % 40)));
        const left = new Set(set.all());
        for (const { kind, which, size } of changes) {
          const block = [...left][which % left.size] ?? 0;
          set.remove(block);
          if (kind === 'remove') {
            left.delete(block);
          } else {
            blocks.size[block] = size * 512;
            set.insert(block);
          }
        }
        const sorted = inOrder(blocks, [...left]);
        expect(set.all()).toEqual(sorted);
        expect(set.largest).toBe(blocks.size[sorted.at(-1) ?? 0]);
        for (const { size } of changes.slice(0, 20)) {
          const first = sorted.find((block) => (blocks.size[block] ?? 0) >= size * 512);
          expect(set.firstOf(size * 512)).toBe(first ?? none);
          const taking = set.copy(blocks);
          expect(taking.takeFirst(size * 512)).toBe(first ?? none);
          expect(taking.all()).toEqual(sorted.filter((block) => block !== first));
        }
        const gone: number[] = [];
        const odd = (block: number) => block % 2 === 1;
        const before = set.copy(blocks);
        expect(set.removeWhere(odd, (block) => gone.push(block))).toBe(gone.length);
        expect(gone).toEqual(inOrder(blocks, [...left].filter(odd)));
        expect(set.all()).toEqual(
          inOrder(
            blocks,
            [...left].filter((block) => !odd(block)),
          ),
        );
        expect(
          set.removeWhere(
            () => true,
            () => {},
          ),
        ).toBe(set.length + left.size - gone.length);
        expect(set.firstOf(1)).toBe(none);
        // A copy does not lose what the set lost.
        expect(before.all()).toEqual(sorted);
      }),
      { numRuns: 8 },
    );
  });
});

const four = Array.from({ length: 16 }, () => 4);

describe('size bins', () => {
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
});
