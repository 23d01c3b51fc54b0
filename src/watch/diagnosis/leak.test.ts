import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLeakDetector } from './leak.js';
import { GiB, randomFrom, wanderingNoise } from './series-for-tests.js';

const limit = 24 * GiB;

function ever(bytesAt: (seconds: number) => number, seconds: number): boolean {
  const detector = createLeakDetector();
  let found = false;
  for (let i = 0; i < seconds * 10; i++) {
    detector.add(i / 10, bytesAt(i / 10), limit);
    if (detector.leak().found === true) found = true;
  }
  return found;
}

describe('createLeakDetector', () => {
  it('says unknown until it could have found one', () => {
    const detector = createLeakDetector();
    expect(detector.leak()).toMatchObject({ found: 'unknown', bytesPerSecond: 'unknown' });
    for (let i = 0; i < 50; i++) detector.add(i / 10, GiB, limit);
    expect(detector.leak().found).toBe('unknown');
    for (let i = 50; i < 190; i++) detector.add(i / 10, GiB, limit);
    expect(detector.leak().found).toBe(false);
  });

  it('finds a leak under noise, with its rate', () => {
    fc.assert(
      fc.property(fc.nat(1e6), (seed) => {
        const noise = wanderingNoise(seed, 0.9);
        const rate = 0.01 * GiB;
        const detector = createLeakDetector();
        for (let i = 0; i < 1500; i++) {
          detector.add(i / 10, 8 * GiB + (rate * i) / 10 + 0.05 * GiB * noise(), limit);
        }
        const leak = detector.leak();
        expect(leak.found).toBe(true);
        expect(Math.abs(Number(leak.bytesPerSecond) / rate - 1)).toBeLessThan(0.25);
        expect(leak.confidence).toBeGreaterThan(0.3);
      }),
      { numRuns: 15 },
    );
  });

  it('claims none over noise that remembers (Mann-Kendall alone claims one in three)', () => {
    let claims = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const noise = wanderingNoise(seed, seed % 2 === 0 ? 0.9 : 0.99);
      if (ever(() => 8 * GiB + 0.3 * GiB * noise(), 120)) claims++;
    }
    expect(claims).toBeLessThanOrEqual(1);
  });

  it('claims none for a load that ends before a load may, however long it then stays', () => {
    const load = (seconds: number) => (t: number) => (1 + 12 * Math.min(1, t / seconds)) * GiB;
    expect(ever(load(25), 120)).toBe(false);
    expect(ever(load(60), 60)).toBe(true);
  });

  it('waits longer for a load that frees nothing and is uneven, where live memory is known', () => {
    const random = randomFrom(7);
    const rates = Array.from({ length: 50 }, () => 0.1 + 0.8 * random());
    /** The sum of the rates of the seconds so far, and of the part of this one. */
    const loaded = (t: number) =>
      rates.reduce((sum, rate, second) => sum + rate * Math.min(1, Math.max(0, t - second)), 1);
    const leakAfter = (seconds: number, at: (t: number) => number) => {
      const detector = createLeakDetector({ live: true });
      for (let i = 0; i < seconds * 10; i++) {
        detector.add(i / 10, Math.round(at(i / 10) * GiB), 64 * GiB);
      }
      return detector.leak().found;
    };
    expect(leakAfter(40, loaded)).toBe('unknown');
    const thenWorks = (t: number) =>
      loaded(Math.min(t, 35)) - 0.1 * ((Math.max(0, t - 35) * 7) % 1);
    expect(leakAfter(38, thenWorks)).not.toBe(true);
    // The same with work beside it that takes and frees, and a straight growth, are leaks.
    expect(leakAfter(40, (t) => loaded(t) + 0.1 * ((t * 7) % 1))).toBe(true);
    expect(leakAfter(40, (t) => 1 + 0.5 * t)).toBe(true);
  });

  it('claims none for lows that rise with the work, where peaks do not', () => {
    // An allocator at its limit gives back its cache for a moment; each low is what work needs then.
    const lows = [0, 0, 0, 0, 6.2, 7.4, 8.2, 9, 10.6, 7];
    const peaks = [4, 8, 12, 18, 20, 22, 19, 21, 23, 24];
    const at = (t: number) => {
      const stage = Math.min(9, Math.floor(t / 4));
      const dips = t % 4 < 0.3 && (lows[stage] ?? 0) > 0;
      return ((dips ? lows[stage] : peaks[stage]) ?? 0) * GiB;
    };
    expect(ever(at, 60)).toBe(false);
  });

  it('claims none for a warm-up, a step, a sawtooth', () => {
    expect(ever((t) => 10 * GiB * (1 - Math.exp(-t / 5)), 120)).toBe(false);
    expect(ever((t) => (t < 30 ? 2 : 9) * GiB, 120)).toBe(false);
    expect(ever((t) => (2 + 8 * ((t / 7) % 1)) * GiB, 120)).toBe(false);
  });

  const after = (seconds: number, bytesAt: (t: number) => number, interval = 0.1) => {
    const detector = createLeakDetector();
    for (let i = 0; i * interval < seconds; i++) {
      detector.add(i * interval, Math.round(bytesAt(i * interval)), limit);
    }
    return detector.leak();
  };

  it('says unknown, the rate and how long to watch, for growth that may be a start', () => {
    const leak = after(14, (t) => 1.2 * GiB * t);
    expect(leak.found).toBe('unknown');
    expect(Number(leak.bytesPerSecond) / (1.2 * GiB)).toBeCloseTo(1, 2);
    expect(leak.sinceSeconds).toBeLessThan(1);
    expect(leak.watchSeconds).toBeGreaterThan(5);
    expect(leak.reason).toMatch(/may still be a start. Watch for \d+ s more/);
  });

  it.each([0.001, 0.016, 0.125, 0.7])('finds a leak of %d GiB a second within 30 s', (rate) => {
    const at = (t: number) => (4 + rate * t + 0.3 * ((t * 7) % 1)) * GiB;
    expect(after(10, at).found).toBe('unknown');
    expect(after(30, at).found).toBe(true);
  });

  it('finds a leak under a sawtooth after three cycles', () => {
    const at = (t: number) => (2 + 0.3 * Math.floor(t / 8) + 8 * ((t / 8) % 1)) * GiB;
    expect(after(23, at).found).not.toBe(true);
    expect(after(29, at).found).toBe(true);
  });

  /** Work in cycles of 5.3 s that swings by 200 MiB above its floor. */
  const work = (t: number) => 0.2 * Math.abs(((t / 5.3) % 1) * 2 - 1) * GiB;
  const later = (t: number, begin: number, rate: number) => Math.max(0, t - begin) * rate * GiB;

  it.each([0.001, 0.016])('finds a leak of %d GiB a second below work that swings', (rate) => {
    const at = (t: number) => 2 * GiB + work(t) + later(t, 15, rate);
    expect(after(45, at).found).toBe(true);
    expect(after(45, (t) => 2 * GiB + work(t)).found).toBe(false);
  });

  it('judges a strong growth sooner after steady work, not after a rest', () => {
    const growing = (t: number) => 2 * GiB + later(t, 20, 0.7);
    expect(after(36, (t) => growing(t) + work(t)).found).toBe(true);
    expect(after(36, growing).found).toBe('unknown');
  });

  it('finds growth that slowed down once, and none where a straight fill stops', () => {
    const slowed = (t: number) => (1 + 0.5 * Math.min(t, 15) + 0.25 * Math.max(0, t - 15)) * GiB;
    expect(after(31, slowed).found).toBe(true);
    expect(ever((t) => (1 + 0.8 * Math.min(t, 24)) * GiB, 60)).toBe(false);
  });

  it('does not say none when work is suddenly higher than ever', () => {
    const detector = createLeakDetector({ live: true });
    const at = (t: number) => 2 * GiB + work(t) + later(t, 25, 0.9);
    for (let i = 0; i <= 270; i++) detector.add(i / 10, Math.round(at(i / 10)), limit);
    expect(detector.leak()).toMatchObject({
      found: 'unknown',
      reason: expect.stringMatching(/higher than ever before/),
    });
  });

  it('never says none while memory grows, nor leak while it slows down', () => {
    const times = fc.double({ min: 5, max: 60, noNaN: true });
    fc.assert(
      fc.property(times, (tau) => {
        const detector = createLeakDetector();
        const answers = new Set<unknown>();
        for (let i = 0; i < 20 * tau; i++) {
          detector.add(i / 10, Math.round(15 * GiB * (1 - Math.exp(-i / 10 / tau))), limit);
          answers.add(detector.leak().found);
        }
        expect([...answers]).toEqual(['unknown']);
      }),
      { numRuns: 8 },
    );
  });

  it('takes a rise in jumps for unknown until it has been quiet', () => {
    const stairs = (t: number) => (4 + 2 * Math.min(3, Math.floor(t / 12))) * GiB;
    expect(after(45, stairs).found).toBe('unknown');
    expect(after(45, stairs).reason).toMatch(/rose by 6.0 GiB/);
    expect(after(70, stairs).found).toBe(false);
  });

  it.each([
    [0.4, true],
    [0.6, false],
  ])('stands where %d of it comes back: %s', (share, found) => {
    const detector = createLeakDetector();
    for (let i = 0; i < 600; i++) detector.add(i / 10, (2 + i / 100) * GiB, limit);
    for (let i = 600; i < 620; i++) detector.add(i / 10, (8 - 6 * share) * GiB, limit);
    expect(detector.leak().found === true).toBe(found);
  });

  it.each([
    [0.4, true],
    [0.7, false],
  ])('stands where nothing grows for %d of the time that it grew: %s', (share, found) => {
    const detector = createLeakDetector();
    const at = (t: number) => (2 + Math.min(t, 60) / 10) * GiB;
    for (let i = 0; i < 600 * (1 + share); i++) detector.add(i / 10, at(i / 10), limit);
    expect(detector.leak().found === true).toBe(found);
  });

  it('lets go of a leak when the memory comes back', () => {
    const detector = createLeakDetector();
    for (let i = 0; i < 600; i++) detector.add(i / 10, (2 + i / 100) * GiB, limit);
    expect(detector.leak().found).toBe(true);
    for (let i = 600; i < 650; i++) detector.add(i / 10, 2 * GiB, limit);
    expect(detector.leak().found).toBe(false);
  });
});
