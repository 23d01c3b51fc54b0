import { describe, expect, it } from 'vitest';
import { slowedOnce } from './leak-evidence.js';

const series = (bytesAt: (t: number) => number) =>
  Array.from({ length: 30 }, (_, t) => ({ seconds: t, bytes: 1e9 + 1e8 * bytesAt(t) }));

describe('slowedOnce', () => {
  it('tells one straight rate after another', () => {
    expect(slowedOnce(series((t) => 2 * Math.min(t, 14) + Math.max(0, t - 14)))).toBe(true);
  });

  it.each<[string, (t: number) => number]>([
    ['an approach to a plateau', (t) => 30 * (1 - Math.exp(-t / 10))],
    ['a root', (t) => 5 * Math.sqrt(t)],
    ['a straight line', (t) => t],
    ['a fill that stopped', (t) => Math.min(t, 15)],
    ['growth that became faster', (t) => t + Math.max(0, t - 14)],
  ])('does not take %s for it', (_, bytesAt) => {
    expect(slowedOnce(series(bytesAt))).toBe(false);
  });

  it('needs enough points for both lines', () => {
    expect(slowedOnce(series((t) => 2 * Math.min(t, 5) + t).slice(0, 12))).toBe(false);
  });
});
