import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { trendOf } from './trend.js';

const times = Array.from({ length: 32 }, (_, index) => index * 2);

describe('trendOf', () => {
  it('needs enough points, and points that are not all at once', () => {
    expect(trendOf([0, 1, 2], [1, 2, 3], 0)).toBe('unknown');
    expect(trendOf(new Float64Array(20), new Float64Array(20), 0)).toBe('unknown');
    expect(trendOf(times, new Float64Array(32).fill(Number.NaN), 0)).toBe('unknown');
  });

  it('follows a line through noise that is small against it, up and down alike', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -50, max: 50, noNaN: true }), { minLength: 32, maxLength: 32 }),
        fc.constantFrom(1, -1),
        (noise, sign) => {
          const values = noise.map((stray, index) => 1000 + sign * index * 40 + stray);
          expect(trendOf(times, values, 100)).toBe(sign > 0 ? 'increasing' : 'decreasing');
        },
      ),
    );
  });

  it('is not turned by a few wild points', () => {
    const values = times.map((at) => (at % 16 === 0 ? 1e6 : 500 - at));
    expect(trendOf(times, values, 1)).toBe('decreasing');
  });

  it('calls noise without direction stable, and a change below the floor too', () => {
    const wobble = times.map((_, index) => 1000 + 100 * Math.sin(index * 2.4));
    expect(trendOf(times, wobble, 1)).toBe('stable');
    const slight = times.map((at) => 1000 + at / 10);
    expect(trendOf(times, slight, 10)).toBe('stable');
    expect(trendOf(times, slight, 1)).toBe('increasing');
  });
});
