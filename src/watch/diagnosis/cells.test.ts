import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Cells, cellsPerLevel } from './cells.js';

describe('Cells', () => {
  it('keeps the extremes of each stretch with their times', () => {
    const cells = new Cells();
    cells.add(0, 5);
    cells.add(0.1, 9);
    cells.add(0.2, 2);
    cells.add(0.3, 7);
    expect(cells.level(0)).toEqual([
      { firstSeconds: 0, lastSeconds: 0.2, min: 2, minSeconds: 0.2, max: 9, maxSeconds: 0.1 },
      { firstSeconds: 0.3, lastSeconds: 0.3, min: 7, minSeconds: 0.3, max: 7, maxSeconds: 0.3 },
    ]);
    expect(cells.levels(0.25)[0]).toHaveLength(1);
  });

  it('holds on every level the extremes of just the values that fell into its cells', () => {
    const steps = fc.array(
      fc.record({ after: fc.double({ min: 0, max: 40, noNaN: true }), value: fc.nat(1000) }),
      { minLength: 1, maxLength: 300 },
    );
    fc.assert(
      fc.property(steps, (given) => {
        const cells = new Cells();
        let seconds = 0;
        const values = given.map(({ after, value }) => {
          seconds += after;
          cells.add(seconds, value);
          return { seconds, value };
        });
        for (const level of cells.levels()) {
          expect(level.length).toBeLessThanOrEqual(cellsPerLevel);
          for (const cell of level) {
            const inside = values
              .filter((v) => v.seconds >= cell.firstSeconds && v.seconds <= cell.lastSeconds)
              .map((v) => v.value);
            expect(cell.min).toBe(Math.min(...inside));
            expect(cell.max).toBe(Math.max(...inside));
          }
        }
      }),
    );
  });
});
