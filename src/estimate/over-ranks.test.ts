import { describe, expect, it } from 'vitest';
import { doubledCounts, overRanks } from './over-ranks.js';
import type { Estimate, Workload } from './types.js';

const workload: Workload = {
  mode: 'train',
  batch: 1,
  precision: 'fp32',
  optimizer: 'adamw',
  checkpointing: false,
  parallel: { way: 'fsdp2', gpus: 2 },
};

/** A job of so many bytes that are shared out, beside some that every rank holds. */
function job(bytesOn: (gpus: number) => number) {
  const traced: number[] = [];
  const estimateOf = ({ parallel }: Workload): Promise<Estimate> => {
    const gpus = parallel?.gpus ?? 0;
    traced.push(gpus);
    const [weights, activations] = [Math.round(bytesOn(gpus)), 1000];
    const whole = weights + activations;
    return Promise.resolve({
      method: 'trace',
      peak: {
        allocatedBytes: whole,
        reservedBytes: whole,
        deviceBytes: whole,
        leastCapacityBytes: whole,
      },
      interval: { lowBytes: whole - 10, highBytes: whole + 10, confidence: 0.95 },
      breakdown: [
        { part: 'weights', bytes: weights, modules: [{ module: '', count: 1, bytes: weights }] },
        { part: 'activations', bytes: activations },
      ],
      notes: [],
    });
  };
  return { traced, estimateOf };
}

describe('doubledCounts', () => {
  it('doubles up to the last, which is always there', () => {
    expect(doubledCounts(2, 512)).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 512]);
    expect(doubledCounts(3, 20)).toEqual([3, 6, 12, 20]);
    expect(doubledCounts(8, 8)).toEqual([8]);
  });
});

describe('overRanks', () => {
  it('traces three counts where all lie on one line over 1/ranks', async () => {
    const { traced, estimateOf } = job((gpus) => 1e9 / gpus);
    const points = await overRanks(doubledCounts(2, 512), workload, estimateOf);
    expect(traced).toEqual([2, 512, 4]);
    expect(points.map(({ ranks }) => ranks.count)).toEqual(doubledCounts(2, 512));
    expect(points.filter((point) => point.traced).length).toBe(3);
    for (const { ranks, peak, breakdown, interval } of points) {
      expect(Math.abs(peak.reservedBytes - 1e9 / ranks.count - 1000)).toBeLessThanOrEqual(1);
      expect(breakdown.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(peak.deviceBytes);
      expect(interval.highBytes - interval.lowBytes).toBeLessThanOrEqual(21);
      expect(breakdown.every((part) => !('modules' in part))).toBe(true);
    }
  });

  it('traces more where another moment makes the peak', async () => {
    const bytesOn = (gpus: number) => Math.max(1e9 / gpus, 3e7 + 1e8 / gpus);
    const { traced, estimateOf } = job(bytesOn);
    const points = await overRanks(doubledCounts(2, 512), workload, estimateOf);
    expect(traced.length).toBeGreaterThan(3);
    for (const { ranks, peak } of points) {
      const truth = bytesOn(ranks.count) + 1000;
      expect(Math.abs(peak.reservedBytes / truth - 1)).toBeLessThan(0.02);
    }
  });

  it('traces one count once, and nothing for one GPU', async () => {
    const { traced, estimateOf } = job(() => 5);
    expect((await overRanks([8], workload, estimateOf)).length).toBe(1);
    expect(await overRanks([8], { ...workload, parallel: undefined }, estimateOf)).toEqual([]);
    expect(traced).toEqual([8]);
  });
});
