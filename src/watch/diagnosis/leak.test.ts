import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLeakDetector } from './leak.js';
import { GiB, wanderingNoise } from './series.fake.js';

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

  it('claims none for a warm-up, a step, a sawtooth', () => {
    expect(ever((t) => 10 * GiB * (1 - Math.exp(-t / 5)), 120)).toBe(false);
    expect(ever((t) => (t < 30 ? 2 : 9) * GiB, 120)).toBe(false);
    expect(ever((t) => (2 + 8 * ((t / 7) % 1)) * GiB, 120)).toBe(false);
  });

  it('lets go of a leak when the memory comes back', () => {
    const detector = createLeakDetector();
    for (let i = 0; i < 600; i++) detector.add(i / 10, (2 + i / 100) * GiB, limit);
    expect(detector.leak().found).toBe(true);
    for (let i = 600; i < 650; i++) detector.add(i / 10, 2 * GiB, limit);
    expect(detector.leak().found).toBe(false);
  });
});
