import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import type { Column, Sample } from '../types.js';
import { createHistory, trendOf } from './history.js';

const device = {
  id: 'gpu:0',
  kind: 'gpu',
  name: 'A test device',
  source: 'simulated',
  provenance: 'simulated',
  uuid: 'unknown',
  driver: 'unknown',
} as const;

function sample(atSeconds: number, usedBytes: Known<number>, live?: number): Sample {
  return {
    device,
    atSeconds,
    epochMs: atSeconds * 1000,
    totalBytes: GiB,
    usedBytes,
    freeBytes: 'unknown',
    utilizationPercent: 'unknown',
    ...(live !== undefined && {
      allocator: { allocatedBytes: live, reservedBytes: live + 1, limitBytes: GiB },
    }),
  };
}

const most = (values: Iterable<number>): number => {
  let max = Number.NEGATIVE_INFINITY;
  for (const value of values) if (value > max) max = value;
  return max;
};
const least = (values: Iterable<number>): number => -most([...values].map((value) => -value));

const known = (values: Float64Array): number[] =>
  [...values].filter((value) => !Number.isNaN(value));

/** Small enough that a few hundred samples reach every level and the joining of the last one. */
const tiny = { samples: 16, buckets: 4, coarserLevels: 2, fold: 2 };

const readings = fc.array(
  fc.record({
    gap: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1000, noNaN: true })),
    used: fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 0, max: GiB }) },
      { weight: 1, arbitrary: fc.constant('unknown' as const) },
    ),
    live: fc.option(fc.integer({ min: 0, max: GiB }), { nil: undefined }),
  }),
  { maxLength: 400 },
);

describe('the history', () => {
  it('loses no peak and no trough, whatever the count and the intervals', () => {
    fc.assert(
      fc.property(readings, fc.integer({ min: 1, max: 500 }), (list, maxPoints) => {
        const history = createHistory(tiny);
        let at = 0;
        const added: Record<'used' | 'allocated', number[]> = { used: [], allocated: [] };
        for (const { gap, used, live } of list) {
          at += gap;
          history.add(sample(at, used, live));
          if (used !== 'unknown') added.used.push(used);
          if (live !== undefined) added.allocated.push(live);
        }
        for (const column of ['used', 'allocated'] as const) {
          const series = history.series(column, { maxPoints });
          expect(most(known(series.max))).toBe(most(added[column]));
          expect(least(known(series.min))).toBe(least(added[column]));
          expect(series.seconds.length).toBeLessThanOrEqual(maxPoints);
          for (let index = 1; index < series.seconds.length; index++) {
            expect(series.seconds[index]).toBeGreaterThan(series.seconds[index - 1] ?? 0);
          }
          for (const [index, mean] of series.mean.entries()) {
            if (Number.isNaN(mean)) continue;
            expect(mean).toBeGreaterThanOrEqual((series.min[index] ?? 0) - 1e-6);
            expect(mean).toBeLessThanOrEqual((series.max[index] ?? 0) + 1e-6);
          }
        }
      }),
    );
  });

  it('keeps the mean of everything through thinning', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: GiB }), { minLength: 1, maxLength: 400 }),
        (list) => {
          const history = createHistory(tiny);
          for (const [index, used] of list.entries()) history.add(sample(index, used));
          const mean = list.reduce((sum, used) => sum + used, 0) / list.length;
          const whole = history.series('used', { maxPoints: 1 });
          expect(whole.mean[0]).toBeCloseTo(mean, 3);
        },
      ),
    );
  });

  it('answers only for the range asked, with the samples themselves while they are young', () => {
    const history = createHistory();
    for (let second = 0; second < 100; second++) history.add(sample(second, second * 10));
    const part = history.series('used', { fromSeconds: 20, toSeconds: 24 });
    expect([...part.seconds]).toEqual([20, 21, 22, 23, 24]);
    expect([...part.mean]).toEqual([200, 210, 220, 230, 240]);
    expect(history.series('used', { fromSeconds: 1000 }).seconds).toHaveLength(0);
    expect(createHistory().series('used').seconds).toHaveLength(0);
  });

  it('has the same times in every column, and NaN where nothing was reported', () => {
    const history = createHistory();
    history.add(sample(0, 5));
    history.add(sample(1, 'unknown', 7));
    const times = (column: Column): number[] => [...history.series(column).seconds];
    expect(times('allocated')).toEqual(times('used'));
    expect(times('utilization')).toEqual([0, 1]);
    expect([...history.series('allocated').max]).toEqual([Number.NaN, 7]);
    expect([...history.series('reserved').max]).toEqual([Number.NaN, 8]);
    expect([...history.series('used').max]).toEqual([5, Number.NaN]);
  });

  it('counts statistics over every sample ever added', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: GiB }), { minLength: 1, maxLength: 400 }),
        (list) => {
          const history = createHistory(tiny);
          for (const [index, used] of list.entries()) history.add(sample(index / 10, used));
          history.add(sample(list.length, 'unknown'));
          const max = most(list);
          const mean = list.reduce((sum, used) => sum + used, 0) / list.length;
          const statistics = history.statistics();
          expect(statistics.samples).toBe(list.length + 1);
          expect(statistics.maxUsedBytes).toBe(max);
          expect(statistics.minUsedBytes).toBe(least(list));
          expect(statistics.maxAtSeconds).toBe(list.indexOf(max) / 10);
          expect(statistics.meanUsedBytes).toBeCloseTo(mean, -1);
          expect(statistics.maxUsedPercent).toBeCloseTo((100 * max) / GiB, 9);
          expect(statistics.meanUsedPercent).toBeCloseTo((100 * mean) / GiB, 6);
        },
      ),
    );
  });

  it('says unknown, not 0, while no use is known', () => {
    const history = createHistory();
    history.add(sample(0, 'unknown'));
    expect(history.statistics()).toEqual({
      samples: 1,
      minUsedBytes: 'unknown',
      meanUsedBytes: 'unknown',
      maxUsedBytes: 'unknown',
      maxAtSeconds: 'unknown',
      meanUsedPercent: 'unknown',
      maxUsedPercent: 'unknown',
    });
    expect(history.trend()).toBe('unknown');
  });
});

describe('what the history costs', () => {
  it('starts small, keeps an hour at 10 Hz in full below 5 MB, and is flat ever after', () => {
    const history = createHistory();
    for (let index = 0; index < 100; index++) history.add(sample(index / 10, index));
    expect(history.footprintBytes).toBeLessThan(20_000);
    for (let index = 100; index < 36_000; index++) history.add(sample(index / 10, index));
    expect(history.footprintBytes).toBeLessThanOrEqual(5_000_000);
    expect(history.series('used', { maxPoints: 36_000 }).mean).toHaveLength(36_000);
    for (let index = 36_000; index < 40_000; index++) history.add(sample(index / 10, index));
    const footprint = history.footprintBytes;
    expect(footprint).toBeLessThanOrEqual(5_000_000);
    // Two weeks at 1 Hz go through all levels but the last.
    for (let index = 40_000; index < 1_200_000; index++) history.add(sample(index / 10, index));
    expect(history.footprintBytes).toBe(footprint);
    const all = history.series('used');
    expect(all.min[0]).toBe(0);
    expect(most(all.max)).toBe(1_199_999);
    expect(history.series('used', { fromSeconds: 119_000 }).mean.length).toBeGreaterThan(1900);
  });

  it('stays within its size when the last level is joined again and again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 17, max: 20_000 }), (count) => {
        const history = createHistory(tiny);
        let footprint = 0;
        for (let index = 0; index < count; index++) {
          history.add(sample(index, index));
          if (index === 16) footprint = history.footprintBytes;
        }
        expect(history.footprintBytes).toBe(footprint);
        const series = history.series('used', { maxPoints: 100_000 });
        expect(series.seconds.length).toBeLessThanOrEqual(16 + 4 + 4);
        expect([series.min[0], series.max.at(-1)]).toEqual([0, count - 1]);
      }),
      { numRuns: 40 },
    );
  });
});

function trendOfUse(used: (second: number) => number, windowSeconds?: number): string {
  const history = createHistory();
  for (let index = 0; index < 1200; index++) history.add(sample(index / 10, used(index / 10)));
  return history.trend(windowSeconds);
}

const upThenFlat = (second: number): number => Math.min(second, 50) * MiB;

describe('the trend of a history', () => {
  it('looks at the last minute unless told otherwise', () => {
    expect(trendOfUse(upThenFlat)).toBe('stable');
    expect(trendOfUse(upThenFlat, 120)).toBe('increasing');
    expect(trendOfUse((second) => 500 * MiB - second * MiB)).toBe('decreasing');
  });

  it('takes a sawtooth and a spike for no direction', () => {
    expect(trendOfUse((second) => (second % 7) * 20 * MiB)).toBe('stable');
    expect(trendOfUse((second) => (second > 110 && second < 113 ? 900 : 100) * MiB)).toBe('stable');
  });
});

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
