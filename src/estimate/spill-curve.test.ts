import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { findGpu } from './cards/gpus.js';
import { spillCurve } from './spill-curve.js';
import type { Estimate } from './types.js';

const context = GiB;
const modules = [
  { module: 'model.layers.*.mlp', count: 24, bytes: 14 * GiB },
  { module: 'model.layers.*.attention', count: 24, bytes: 6 * GiB },
  { module: 'lm_head', count: 1, bytes: 2 * GiB },
];
const training: Pick<Estimate, 'peak' | 'breakdown'> = {
  peak: {
    allocatedBytes: 28 * GiB,
    reservedBytes: 28 * GiB,
    deviceBytes: 29 * GiB,
    leastCapacityBytes: 29 * GiB,
  },
  breakdown: [
    { part: 'weights', bytes: GiB },
    { part: 'optimizer', bytes: 2 * GiB },
    { part: 'activations', bytes: 24 * GiB, modules },
    { part: 'temporary', bytes: GiB },
    { part: 'context', bytes: context },
  ],
};

describe('the curve of memory against time', () => {
  const h200 = findGpu('h200');

  it('gets slower with less memory, and ends where nothing more gives way', () => {
    const curve = spillCurve(training, h200);
    const memory = curve.map(({ memoryBytes }) => memoryBytes);
    const times = curve.map(({ slowdown }) => slowdown.expected);
    expect(memory).toEqual(memory.toSorted((a, b) => b - a));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    for (const { slowdown } of curve) {
      expect(slowdown.low).toBeLessThanOrEqual(slowdown.expected);
      expect(slowdown.expected).toBeLessThanOrEqual(slowdown.high);
      expect(slowdown.low).toBeGreaterThanOrEqual(1);
    }
    // Weights, states and gradients are there at any limit.
    expect(Math.min(...memory)).toBeGreaterThan(4 * GiB + context);
  });

  it('says that half is enough for little more than recomputing what is over', () => {
    const half = spillCurve(training, h200).find(({ memoryBytes }) => memoryBytes < 15 * GiB);
    expect(half?.slowdown.expected).toBeGreaterThan(1);
    expect(half?.slowdown.high).toBeLessThan(1.6);
  });

  it('is slower where nothing can be computed again, and the more so on a slower bus', () => {
    const [weights, optimizer, activations, ...others] = training.breakdown;
    if (!weights || !optimizer || !activations) throw new Error('there are more');
    const { modules: _, ...plain } = activations;
    const breakdown = [weights, optimizer, plain, ...others];
    const at = (parts: typeof training, gpu: string) =>
      spillCurve(parts, findGpu(gpu))[2]?.slowdown.expected ?? 0;
    const without = { ...training, breakdown };
    expect(at(without, 'h200')).toBeGreaterThan(at(training, 'h200'));
    expect(at(without, 'a100-80gb')).toBeLessThan(at(without, 'h200') * 2);
  });

  it('is not told of work that trains nothing, or keeps little', () => {
    const only = (names: readonly string[]) => ({
      ...training,
      breakdown: training.breakdown.filter(({ part }) => names.includes(part)),
    });
    expect(spillCurve(only(['weights', 'activations']), h200)).toEqual([]);
    expect(spillCurve(only(['weights', 'optimizer']), h200)).toEqual([]);
  });
});
