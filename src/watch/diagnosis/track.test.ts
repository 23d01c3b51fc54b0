import { describe, expect, it } from 'vitest';
import { Cycles, Pace } from './track.js';

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

function follow(series: readonly (readonly [number, number])[]): Cycles {
  const cycles = new Cycles();
  for (const [seconds, bytes] of series) cycles.add(seconds, bytes, 1000);
  return cycles;
}

describe('Cycles', () => {
  it('tells the climbs of a sawtooth', () => {
    const series = Array.from({ length: 31 }, (_, i): [number, number] => [i, (i % 10) * 50]);
    const cycles = follow(series);
    expect(cycles.climbs.map((climb) => [climb.trough.seconds, climb.peak.seconds])).toEqual([
      [0, 9],
      [10, 19],
      [20, 29],
    ]);
    expect(cycles.troughSeconds).toBe(30);
  });

  it('takes small ups and downs for work, not for cycles', () => {
    const series = Array.from({ length: 100 }, (_, i): [number, number] => [i, 500 + (i % 7) * 10]);
    expect(follow(series).climbs).toEqual([]);
  });

  it('keeps a bounded past', () => {
    const series = Array.from({ length: 10_000 }, (_, i): [number, number] => [i, (i % 10) * 50]);
    expect(follow(series).climbs.length).toBe(16);
  });
});
