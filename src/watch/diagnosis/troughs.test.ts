import { describe, expect, it } from 'vitest';
import { Troughs } from './troughs.js';

const MiB = 1024 ** 2;

function troughsOf(bytesAt: (t: number) => number, seconds = 40): Troughs {
  const troughs = new Troughs();
  for (let i = 0; i < seconds * 10; i++) troughs.add(i / 10, bytesAt(i / 10) * MiB);
  return troughs;
}

/** From 0 to 1 and back every 6 s. */
const swing = (t: number) => Math.abs(((t / 6) % 1) * 2 - 1);

describe('Troughs', () => {
  it('finds the rate at which the lows of cycles rise', () => {
    const growth = troughsOf((t) => 300 + 200 * swing(t) + t).growth(4 * MiB);
    expect((growth?.slope ?? 0) / MiB).toBeCloseTo(1, 1);
    expect(growth?.shape).toBe('envelope');
  });

  it('answers nothing for work that only swings', () => {
    expect(troughsOf((t) => 300 + 200 * swing(t)).growth(4 * MiB)).toBeUndefined();
  });

  it('answers nothing where only the lows rise or only the peaks', () => {
    const narrows = (t: number) => 300 + 2 * t + (200 - 2 * t) * swing(t);
    const widens = (t: number) => 300 + (200 + 2 * t) * swing(t);
    expect(troughsOf(narrows).growth(4 * MiB)).toBeUndefined();
    expect(troughsOf(widens).growth(4 * MiB)).toBeUndefined();
  });

  it('answers nothing for lows that were higher before', () => {
    const fell = (t: number) => 300 + 200 * swing(t) + (t < 12 ? 90 : t);
    expect(troughsOf(fell).growth(4 * MiB)).toBeUndefined();
  });

  it('knows a beginning after three of them', () => {
    const troughs = troughsOf((t) => 300 + 200 * swing(t) + t, 18);
    expect(troughs.growth(4 * MiB)).toBeUndefined();
    expect(troughs.beginning(4 * MiB)).toBeDefined();
  });

  it('tells whether the peaks of a few cycles rose as their lows did', () => {
    const growth = troughsOf((t) => 300 + 200 * swing(t) + t).growth(4 * MiB);
    const narrows = (t: number) => 300 + t + (200 - t) * swing(t);
    expect(growth).toBeDefined();
    if (!growth) return;
    const few = { ...growth, fromSeconds: 0 };
    expect(troughsOf((t) => 300 + 200 * swing(t) + t, 18).peaksFollow(few)).toBe(true);
    expect(troughsOf(narrows, 18).peaksFollow(few)).toBe(false);
    // More of them are judged by how evenly they rise.
    expect(troughsOf((t) => 300 + 200 * swing(t) + t).peaksFollow(few)).toBe(false);
  });
});
