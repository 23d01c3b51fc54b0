import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockTable, none } from './block-table.js';
import { FreeSet } from './free-set.js';

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
