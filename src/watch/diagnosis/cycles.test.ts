import { describe, expect, it } from 'vitest';
import { Cycles } from './cycles.js';

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
