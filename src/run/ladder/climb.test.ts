import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import type { Attempt, RunSettings } from '../types.js';
import { climb, fitsByMeasure, type RecoveryInput } from './climb.js';

const sizes = [1, 2, 4].map((microbatch) => ({ microbatch, peakBytes: (2 + microbatch) * GiB }));

describe('sizes that were measured after a failure', () => {
  it('tell the largest that stays below the load line, by the line through the two largest', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 512 }),
        fc.integer({ min: 0, max: 40 }),
        fc.integer({ min: 1, max: 900 }),
        fc.integer({ min: 1, max: 80 }),
        (failed, base, each, limit) => {
          const peak = (batch: number) => base * GiB + batch * each * 2 ** 20;
          // The peak of one sample may be something that all sizes have.
          const found = fitsByMeasure(
            failed,
            [
              { microbatch: 4, peakBytes: peak(4) },
              { microbatch: 1, peakBytes: peak(3) },
              { microbatch: 2, peakBytes: peak(2) },
            ],
            limit * GiB,
          );
          if (found === undefined) {
            expect(peak(failed)).toBeLessThanOrEqual(0.9 * limit * GiB + 1);
            return;
          }
          expect(found.most).toBeLessThan(failed);
          expect(peak(found.most + 1)).toBeGreaterThan(0.9 * limit * GiB - 1);
          // Of the sizes that were made, one may come closer to the limit.
          const line = found.most === 2 || found.most === 4 ? 0.95 : 0.9;
          if (found.most > 1) expect(peak(found.most)).toBeLessThanOrEqual(line * limit * GiB + 1);
        },
      ),
    );
  });

  it('take a size that was made up to a twentieth below the limit', () => {
    const made = [
      { microbatch: 1, peakBytes: 3.2 * GiB },
      { microbatch: 2, peakBytes: 4.51 * GiB },
    ];
    expect(fitsByMeasure(12, made, 4.97 * GiB)?.most).toBe(2);
    expect(fitsByMeasure(12, made, 4.7 * GiB)?.most).toBe(1);
  });

  it('tell nothing where they are too few, do not grow, or where no limit is known', () => {
    expect(fitsByMeasure(32, sizes.slice(0, 1), 8 * GiB)).toBeUndefined();
    expect(fitsByMeasure(32, sizes, 'unknown')).toBeUndefined();
    const flat = sizes.map((one) => ({ ...one, peakBytes: GiB }));
    expect(fitsByMeasure(32, flat, 8 * GiB)).toBeUndefined();
  });

  it('come down to one sample where not even one stays below the load line', () => {
    expect(fitsByMeasure(32, sizes, 2 * GiB)).toMatchObject({ most: 1 });
    expect(fitsByMeasure(32, sizes, 2 * GiB)?.why).toContain('not even one fits under 1.8 GiB');
  });
});

describe('the ladder', () => {
  it('takes what was measured, and half of it once that has failed, too', () => {
    expect(climb(input())?.settings).toMatchObject({ batch_size: 8, accumulation: 4 });
    expect(climb(input())?.why).toContain('so 8 fit under 10.8 GiB; now 8 x 4');
    // The same measure again would say 8: it was refuted.
    const earlier = [attempt(32)];
    expect(climb(input(8, earlier))?.settings).toMatchObject({ batch_size: 4, accumulation: 8 });
    const again = climb(input(10, earlier));
    expect(again?.settings).toMatchObject({ batch_size: 4, accumulation: 8 });
  });
});

function settingsOf(batch: number): RunSettings {
  return {
    batch_size: batch,
    accumulation: 1,
    checkpointing: false,
    precision: 'fp32',
    offload: false,
    device: 'gpu:0',
  };
}

function input(batch = 32, earlier: readonly Attempt[] = []): RecoveryInput {
  return {
    settings: settingsOf(batch),
    outOfMemory: attempt(batch).outOfMemory ?? fail(),
    peakBytes: 12 * GiB,
    limitBytes: 12 * GiB,
    baseBytes: 'unknown',
    earlier,
    measured: sizes,
    declared: new Set(['batch_size', 'accumulation']),
    batch: 32,
    savedProgress: false,
    canSpill: false,
  };
}

function attempt(batch: number): Attempt {
  return {
    number: 1,
    settings: settingsOf(batch),
    command: [],
    startedAt: '',
    endedAt: '',
    exitCode: 1,
    outOfMemory: {
      kind: 'cuda',
      askedBytes: 'unknown',
      freeBytes: 'unknown',
      totalBytes: 12 * GiB,
      message: '',
    },
    rungs: [],
    peakBytes: 12 * GiB,
    source: 'measured',
    peakFrom: 'sdk',
    limit: { bytes: 12 * GiB, by: 'sdk', why: '' },
    snapshot: null,
  };
}

function fail(): never {
  throw new Error('the attempt ran out of memory');
}
