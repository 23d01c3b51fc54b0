import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Sized, SizedList } from './sized-list.js';

describe('SizedList', () => {
  it('finds the last that is large enough, as looking at each one does', () => {
    const change = fc.record({
      kind: fc.constantFrom('add' as const, 'add' as const, 'remove' as const, 'resize' as const),
      order: fc.nat(10_000),
      size: fc.nat(50),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 700, size: 'max' }), (changes) => {
        const list = new SizedList<Sized>();
        const plain = new Map<number, Sized>();
        for (const { kind, order, size } of changes) {
          const there = plain.get(order) ?? [...plain.values()][order % (plain.size || 1)];
          if (kind === 'add' && !plain.has(order)) {
            const entry = { order, size };
            plain.set(order, entry);
            list.add(entry);
          } else if (kind === 'remove' && there !== undefined) {
            plain.delete(there.order);
            list.remove(there);
          } else if (there !== undefined) {
            list.resize(there, size);
          }
          const sorted = [...plain.values()].toSorted((a, b) => a.order - b.order);
          expect(list.lastOf(size)).toBe(sorted.findLast((entry) => entry.size >= size));
        }
      }),
      { numRuns: 10 },
    );
  });
});
