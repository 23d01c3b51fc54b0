import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseBytes } from '../../units/bytes.js';
import type { Forecast, MemoryPoint } from '../types.js';
import { createForecaster } from './forecast.js';
import { timeToLimit } from './forecast-time.js';
import { columnsOf, type Growth, steadyGrowth } from './growth.js';
import { isAtLeast } from './risk.js';
import { GiB, pointsOf, randomFrom, wanderingNoise } from './series-for-tests.js';

interface Seen {
  readonly point: MemoryPoint;
  readonly forecast: Forecast;
}

function run(points: readonly MemoryPoint[]): Seen[] {
  const forecaster = createForecaster();
  return points.map((point) => {
    forecaster.add(point);
    return { point, forecast: forecaster.forecast() };
  });
}

const firstHigh = (seen: readonly Seen[]): Seen | undefined =>
  seen.find(({ forecast }) => isAtLeast(forecast.risk, 'high'));

/** The rate and the room of which a sentence makes its time. */
function figuresOf(reason: string): [rate: number, room: number] {
  const size = String.raw`([\d.]+ [KMGT]?i?B)`;
  const [, mean] = new RegExp(`at ${size} a second on average`).exec(reason) ?? [];
  const [, rate] = new RegExp(`by ${size} a second`).exec(reason) ?? [];
  const [, room] = new RegExp(`${size} (?:that )?are left`).exec(reason) ?? [];
  return [parseBytes(mean ?? rate ?? ''), parseBytes(room ?? '')];
}

/** `3 min 50 s`. */
function parseSeconds(text: string): number {
  const sizes: Readonly<Record<string, number>> = { s: 1, min: 60, h: 3600, d: 86_400 };
  const parts = [...text.matchAll(/([\d.]+) (s|min|h|d)/g)];
  return parts.reduce((sum, [, count, unit = 's']) => sum + Number(count) * (sizes[unit] ?? 1), 0);
}

const seeds = fc.nat(1e6);
const runs = { numRuns: 15 };

describe('createForecaster', () => {
  it('says unknown, and why, until there is enough to go by', () => {
    const [first] = run(pointsOf({ seconds: 1, held: () => GiB }));
    expect(first?.forecast).toMatchObject({
      risk: 'unknown',
      etaSeconds: 'unknown',
      confidence: 0,
    });
    expect(first?.forecast.reason).toMatch(/seen; 3 s are needed/);
  });

  it('expects the end of a straight growth to within a tenth, ahead of time', () => {
    const rates = fc.double({ min: 0.05, max: 0.8, noNaN: true });
    const intervals = fc.constantFrom(0.1, 0.5);
    fc.assert(
      fc.property(rates, intervals, seeds, (rate, interval, seed) => {
        const random = randomFrom(seed);
        const end = 20 / rate;
        const held = (t: number) => 4 * GiB + rate * GiB * t + 0.02 * GiB * random();
        const high = firstHigh(run(pointsOf({ seconds: end, interval, held })));
        expect(high).toBeDefined();
        if (!high) return;
        const left = end - high.point.seconds;
        expect(left).toBeGreaterThan(5);
        expect(Math.abs(Number(high.forecast.etaSeconds) - left) / left).toBeLessThan(0.1);
        expect(Number(high.forecast.lowSeconds)).toBeLessThanOrEqual(left);
        expect(Number(high.forecast.highSeconds)).toBeGreaterThanOrEqual(left);
      }),
      runs,
    );
  });

  it('catches a leak that starts late, after an hour of calm', () => {
    const held = (t: number) => 6 * GiB + Math.max(0, t - 3600) * 0.2 * GiB;
    const high = firstHigh(run(pointsOf({ seconds: 3690, interval: 0.5, held })));
    expect(high?.point.seconds).toBeGreaterThan(3610);
    expect(high?.point.seconds).toBeLessThan(3660);
  });

  it('stays calm over noise, however it wanders', () => {
    const memories = fc.constantFrom(0, 0.5, 0.9, 0.99);
    fc.assert(
      fc.property(memories, seeds, (memory, seed) => {
        const noise = wanderingNoise(seed, memory);
        const held = () => 12 * GiB + 0.5 * GiB * noise();
        expect(firstHigh(run(pointsOf({ seconds: 200, held })))).toBeUndefined();
      }),
      runs,
    );
  });

  it('stays calm while a warm-up settles below the limit', () => {
    const settles = fc.double({ min: 2, max: 16, noNaN: true });
    fc.assert(
      fc.property(settles, fc.double({ min: 0.3, max: 40, noNaN: true }), (level, tau) => {
        const held = (t: number) => level * GiB * (1 - Math.exp(-t / tau));
        expect(firstHigh(run(pointsOf({ seconds: 200, held })))).toBeUndefined();
      }),
      runs,
    );
  });

  it('stays calm over a sawtooth that repeats, once it has come down', () => {
    const periods = fc.double({ min: 0.5, max: 30, noNaN: true });
    fc.assert(
      fc.property(periods, fc.double({ min: 1, max: 14, noNaN: true }), (period, height) => {
        const held = (t: number) => 4 * GiB + height * GiB * ((t / period) % 1);
        const seen = run(pointsOf({ seconds: 10 * period + 20, held }));
        // It cannot be known at the first climb that it will turn round; 5 s later the alarm is over.
        const later = seen.filter(({ point }) => point.seconds > period + 5);
        expect(firstHigh(later)).toBeUndefined();
      }),
      runs,
    );
  });

  it('stays calm over evaluation spikes and the cache that they leave', () => {
    const held = (t: number) => (t < 11 ? 6 : 20) * GiB;
    const live = (t: number) => (t > 11 && t % 17 < 0.3 ? 18 : 4 + (t % 0.4)) * GiB;
    expect(firstHigh(run(pointsOf({ seconds: 120, held, live })))).toBeUndefined();
  });

  it('sees a leak below a cache that already holds nearly everything', () => {
    const live = (t: number) => (4 + (t % 0.4) + Math.max(0, t - 60) * 0.2) * GiB;
    const held = () => 22 * GiB;
    const high = firstHigh(run(pointsOf({ seconds: 150, held, live })));
    expect(high?.point.seconds).toBeGreaterThan(65);
    expect(high?.point.seconds).toBeLessThan(140);
  });

  it('sees the envelope of a sawtooth rise', () => {
    const held = (t: number) => (2 + 0.1 * t + 6 * ((t / 9) % 1)) * GiB;
    const end = 160;
    const seen = run(pointsOf({ seconds: end, held }));
    const high = firstHigh(seen.filter(({ point }) => point.seconds > 20));
    expect(high).toBeDefined();
    expect(end - (high?.point.seconds ?? end)).toBeGreaterThan(5);
  });

  it('is over at once when the memory came back', () => {
    const held = (t: number) => (t < 60 ? 4 + t / 3.2 : 1) * GiB;
    const seen = run(pointsOf({ seconds: 61, held }));
    const before = seen.findLast(({ point }) => point.seconds < 59.95);
    expect(before?.forecast.risk).toBe('critical');
    const after = seen.find(({ point }) => point.seconds > 60.05);
    expect(after?.forecast).toMatchObject({ risk: 'none', etaSeconds: 'never' });
  });

  it('is over soon after the growth has stopped, however long it lasted', () => {
    const held = (t: number) => (4 + Math.min(t, 300) / 17) * GiB;
    const seen = run(pointsOf({ seconds: 320, held }));
    expect(seen.find(({ point }) => point.seconds > 299)?.forecast.risk).toBe('high');
    expect(seen.find(({ point }) => point.seconds > 306)?.forecast.risk).toBe('none');
  });

  it.each<[string, Parameters<typeof pointsOf>[0]]>([
    ['a straight growth', { seconds: 100, held: (t) => 4 * GiB + 0.2 * GiB * t }],
    ['one that speeds up', { seconds: 42, held: (t) => 2 * GiB + 0.15 * GiB * Math.exp(t / 8) }],
    [
      'one that slows down',
      { seconds: 100, held: (t) => 2 * GiB + 30 * GiB * (1 - Math.exp(-t / 70)) },
    ],
    ['a sawtooth', { seconds: 160, held: (t) => (2 + 0.1 * t + 6 * ((t / 9) % 1)) * GiB }],
    [
      'live memory below a cache',
      {
        seconds: 150,
        held: () => 22 * GiB,
        live: (t) => (4 + (t % 0.4) + Math.max(0, t - 60) * 0.2) * GiB,
      },
    ],
  ])('says figures of %s that follow from one another', (_, recipe) => {
    const sentences = run(pointsOf(recipe)).flatMap(({ forecast: { etaSeconds, reason } }) => {
      const early = / full in (.*): too far/.exec(reason)?.[1];
      const seconds = early === undefined ? etaSeconds : parseSeconds(early);
      return typeof seconds === 'number' && seconds > 1 ? [{ seconds, reason }] : [];
    });
    expect(sentences.length).toBeGreaterThan(0);
    for (const { seconds, reason } of sentences) {
      const [rate, room] = figuresOf(reason);
      // Both are rounded to a digit behind the point, or to whole ones above a hundred.
      expect(Math.abs(room / rate / seconds - 1), `${reason} ${seconds} s`).toBeLessThan(0.1);
    }
  });

  it('uses nothing but the past', () => {
    fc.assert(
      fc.property(seeds, fc.integer({ min: 50, max: 400 }), (seed, cut) => {
        const random = randomFrom(seed);
        const points = pointsOf({ seconds: 60, held: (t) => (2 + t / 4 + random()) * GiB });
        const whole = run(points)[cut]?.forecast;
        const part = run(points.slice(0, cut + 1)).at(-1)?.forecast;
        expect(part).toEqual(whole);
      }),
      runs,
    );
  });
});

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
