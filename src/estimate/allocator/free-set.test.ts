import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockTable } from './block-table.js';
import { FreeSet, nowhere } from './free-set.js';

/** Many more blocks than one chunk holds. */
const blockCount = 5000;

function filled(sizeOf: (block: number) => number) {
  const blocks = new BlockTable();
  const set = new FreeSet(blocks);
  // Not in the order of their addresses, so that chunks split in the middle too.
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
  it('finds the smallest block that is large enough, the lowest of equals, in every chunk', () => {
    const { blocks, set } = filled((index) => 512 * (1 + (index % 40)));
    expect(set.all()).toEqual(inOrder(blocks, set.all()));
    for (let step = 1; step <= 40; step += 1) {
      const found = set.blockAt(set.firstOf(512 * step));
      expect(blocks.size[found]).toBe(512 * step);
      expect(blocks.address[found]).toBe((step - 1) * 512);
    }
    expect(set.firstOf(512 * 41)).toBe(nowhere);
  });

  it('goes through all blocks with after()', () => {
    const { set } = filled((index) => 512 * (1 + (index % 7)));
    const seen: number[] = [];
    for (let place = set.firstOf(1); place !== nowhere; place = set.after(place)) {
      seen.push(set.blockAt(place));
    }
    expect(seen).toEqual(set.all());
    expect(seen.length).toBe(blockCount);
  });

  it('stays in order whatever is removed, resized or released', () => {
    const change = fc.record({
      kind: fc.constantFrom('remove' as const, 'resize' as const),
      which: fc.nat(blockCount),
      size: fc.integer({ min: 1, max: 60 }),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 300, size: 'max' }), (changes) => {
        const { blocks, set } = filled((index) => 512 * (1 + (index % 40)));
        const left = new Set(set.all());
        for (const { kind, which, size } of changes) {
          const block = [...left][which % left.size] ?? 0;
          const place = set.placeOf(block);
          expect(set.blockAt(place)).toBe(block);
          if (kind === 'remove') {
            set.removeAt(place);
            left.delete(block);
          } else {
            blocks.size[block] = size * 512;
            set.slide(place, block);
          }
        }
        expect(set.all()).toEqual(inOrder(blocks, [...left]));
        const gone: number[] = [];
        const odd = (block: number) => block % 2 === 1;
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
        expect(set.firstOf(1)).toBe(nowhere);
      }),
      { numRuns: 8 },
    );
  });
});
