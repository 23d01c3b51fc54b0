import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rowsOnScreen } from './virtual-rows.js';

describe('the rows on the screen', () => {
  it('are all there, and few beside them, wherever one scrolled to', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -600_000, max: 2000 }),
        fc.integer({ min: 200, max: 3000 }),
        fc.nat(10_000),
        (top, height, count) => {
          const { first, end } = rowsOnScreen({ top, height }, 58, count);
          for (let row = 0; row < count; row += 7) {
            const at = top + row * 58;
            if (at + 58 > 0 && at < height) {
              expect(row).toBeGreaterThanOrEqual(first);
              expect(row).toBeLessThan(end);
            }
          }
          expect(first).toBeGreaterThanOrEqual(0);
          expect(end).toBeLessThanOrEqual(count);
          expect(end - first).toBeLessThan(height / 58 + 35);
        },
      ),
    );
  });

  it('are the same for a few pixels of scrolling', () => {
    const at = (top: number) => rowsOnScreen({ top, height: 800 }, 58, 10_000);
    expect(at(-29_010)).toEqual(at(-29_050));
  });
});
