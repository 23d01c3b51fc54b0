import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnsOf, type EnvelopePoint, type Growth, steadyGrowth } from './growth.js';

const growthOf = (points: readonly EnvelopePoint[], leastRise: number): Growth | undefined =>
  steadyGrowth(columnsOf(points), leastRise);

const line = (n: number, bytesAt: (i: number) => number): EnvelopePoint[] =>
  Array.from({ length: n }, (_, i) => ({ seconds: i, bytes: bytesAt(i) }));

describe('steadyGrowth', () => {
  it('finds the slope of a straight line exactly', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 10, max: 32 }),
        fc.integer({ min: 1, max: 1e9 }),
        (n, slope) => {
          const growth = growthOf(
            line(n, (i) => 1e9 + slope * i),
            1,
          );
          expect(growth?.slope).toBeCloseTo(slope, 3);
          expect(growth?.ratio).toBeCloseTo(1, 6);
          expect(growth?.endBytes).toBeCloseTo(1e9 + slope * (n - 1), 0);
        },
      ),
    );
  });

  it.each<[string, EnvelopePoint[]]>([
    ['too few points', line(9, (i) => 100 * i)],
    ['level', line(20, () => 500)],
    ['falling', line(20, (i) => 5000 - 100 * i)],
    ['a single jump', line(20, (i) => (i < 10 ? 0 : 1000))],
    ['a rise that is given back', line(20, (i) => (i < 15 ? 100 * i : 700))],
    ['a rise that has paused', line(20, (i) => 100 * Math.min(i, 9))],
    ['a rest before a growth', line(24, (i) => 100 * Math.max(0, i - 12))],
  ])('claims none for %s', (_, points) => {
    expect(growthOf(points, 1)).toBeUndefined();
  });

  it('sees which way a curve bends', () => {
    const rising = growthOf(
      line(24, (i) => 1000 * Math.exp(i / 16)),
      1,
    );
    expect(rising?.ratio).toBeGreaterThan(1.5);
    const levelling = growthOf(
      line(24, (i) => 1e6 * (1 - Math.exp(-i / 16))),
      1,
    );
    expect(levelling?.ratio).toBeLessThan(0.7);
  });

  it('does not depend on where the clock or the bytes begin', () => {
    const rises = fc.array(fc.integer({ min: -3, max: 10 }), { minLength: 10, maxLength: 32 });
    fc.assert(
      fc.property(rises, fc.nat(1000), (steps, offset) => {
        let sum = 0;
        const sums = steps.map((step) => (sum += step));
        const here = growthOf(
          line(sums.length, (i) => sums[i] ?? 0),
          1,
        );
        const there = growthOf(
          sums.map((bytes, i) => ({ seconds: i + offset, bytes: bytes + offset })),
          1,
        );
        expect(there === undefined).toBe(here === undefined);
        if (here && there) expect(there.slope).toBeCloseTo(here.slope, 6);
      }),
    );
  });
});
