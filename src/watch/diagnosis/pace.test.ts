import { describe, expect, it } from 'vitest';
import { Pace } from './pace.js';

describe('Pace', () => {
  it('knows a pause by the gaps before it', () => {
    const pace = new Pace();
    for (let second = 0; second <= 10; second += 2) pace.add(second, second);
    expect(pace.hasPaused(14.9)).toBe(false);
    expect(pace.hasPaused(15.1)).toBe(true);
    pace.add(16, 10);
    expect(pace.hasPaused(16)).toBe(true);
    pace.add(16, 11);
    expect(pace.hasPaused(16)).toBe(false);
  });

  it('forgets gaps of long ago, and all of them when the series came down', () => {
    const pace = new Pace();
    pace.add(0, 1);
    pace.add(100, 2);
    for (let i = 1; i <= 20; i++) pace.add(100 + i, 2 + i);
    expect(pace.hasPaused(123)).toBe(true);
    pace.restart();
    pace.add(124, 1);
    expect(pace.hasPaused(124.5)).toBe(false);
  });
});
