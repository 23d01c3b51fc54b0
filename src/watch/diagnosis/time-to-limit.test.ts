import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnsOf, type Growth, steadyGrowth } from './growth.js';
import { timeToLimit } from './time-to-limit.js';

function growthOf(bytesAt: (seconds: number) => number, n = 32): Growth {
  const points = Array.from({ length: n }, (_, i) => ({ seconds: i, bytes: bytesAt(i) }));
  const growth = steadyGrowth(columnsOf(points), 1);
  if (!growth) throw new Error('the series of this test must grow');
  return growth;
}

describe('timeToLimit', () => {
  it('extends a straight line', () => {
    const growth = growthOf((t) => 1000 + 10 * t);
    const time = timeToLimit(growth, 31, 1000 + 10 * 131);
    expect(time.seconds).toBeCloseTo(100, 6);
  });

  it('counts the time that passed since the last point', () => {
    const growth = growthOf((t) => 1000 + 10 * t);
    expect(timeToLimit(growth, 41, 1000 + 10 * 131).seconds).toBeCloseTo(90, 6);
  });

  it('follows exponential growth within a fifth', () => {
    const bytesAt = (t: number) => 1e6 * Math.exp(t / 20);
    const end = 31 + 30;
    const time = timeToLimit(growthOf(bytesAt), 31, bytesAt(end));
    expect(Math.abs(time.seconds - 30) / 30).toBeLessThan(0.2);
  });

  it('never expects a warm-up to pass the level it settles at', () => {
    const growth = growthOf((t) => 1e9 * (1 - Math.exp(-t / 12)));
    expect(timeToLimit(growth, 31, 1.3e9).seconds).toBe(Number.POSITIVE_INFINITY);
  });

  it('orders its bounds and answers 0 once the limit is passed', () => {
    const slopes = fc.integer({ min: 1, max: 1e6 });
    fc.assert(
      fc.property(slopes, fc.integer({ min: -1e9, max: 1e12 }), (slope, room) => {
        const growth = growthOf((t) => 1e9 + slope * t);
        const time = timeToLimit(growth, 31, 1e9 + slope * 31 + room);
        expect(time.low).toBeLessThanOrEqual(time.seconds);
        expect(time.seconds).toBeLessThanOrEqual(time.high);
        if (room <= 0) expect(time.seconds).toBe(0);
      }),
    );
  });
});
