import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import {
  correctEstimate,
  expectedSeconds,
  type MeasuredRun,
  measuredRun,
  workloadKey,
} from './corrections.js';
import { attemptForTests } from './store/attempt-for-tests.js';

const run = (peakBytes: number, askedBytes: MeasuredRun['askedBytes'] = 'none') => ({
  peakBytes,
  askedBytes,
  seconds: 60,
});

describe('correctEstimate', () => {
  it('is the estimate before any run, and nothing where there is neither', () => {
    expect(correctEstimate(8 * GiB, [])).toMatchObject({ bytes: 8 * GiB, basis: 'estimated' });
    expect(correctEstimate('unknown', [])).toBeUndefined();
  });

  it('is the largest peak and a margin, whatever the estimate said', () => {
    const corrected = correctEstimate(8 * GiB, [run(5 * GiB), run(6 * GiB)]);
    expect(corrected?.bytes).toBeLessThan(7 * GiB);
    expect(corrected).toMatchObject({
      basis: 'measured',
      reason: { runs: 2, maxPeakBytes: 6 * GiB, outOfMemory: 0, estimatedBytes: 8 * GiB },
    });
  });

  it('asks for less of a margin the more runs agree', () => {
    const bytes = (count: number) =>
      correctEstimate(
        'unknown',
        Array.from({ length: count }, () => run(10 * GiB)),
      )?.bytes ?? 0;
    expect(bytes(1)).toBe(11 * GiB);
    expect(bytes(30)).toBeLessThan(bytes(4));
    expect(bytes(4)).toBeLessThan(bytes(1));
  });

  it('asks for half of the margin where the estimate said the same', () => {
    const bytes = (estimate: number) => correctEstimate(estimate * GiB, [run(10 * GiB)])?.bytes;
    expect(bytes(11)).toBe(10.5 * GiB);
    // More than was estimated, or so much less that it was another case.
    expect(bytes(9)).toBe(11 * GiB);
    expect(bytes(20)).toBe(11 * GiB);
  });

  it('asks for more than a run had that ran out of memory', () => {
    expect(correctEstimate('unknown', [run(4 * GiB, 2 * GiB)])?.bytes).toBeGreaterThan(6 * GiB);
    expect(correctEstimate('unknown', [run(4 * GiB, 'unknown')])?.bytes).toBe(5 * GiB);
    expect(correctEstimate(9 * GiB, [run(4 * GiB, 'unknown')])?.bytes).toBe(9 * GiB);
  });

  it('is never below a peak that was measured, and a whole number', () => {
    const runs = fc.array(
      fc.record({
        peakBytes: fc.integer({ min: 0, max: 200 * GiB }),
        askedBytes: fc.oneof(fc.constantFrom('none' as const, 'unknown' as const), fc.nat(GiB)),
        seconds: fc.nat(100),
      }),
      { minLength: 1, maxLength: 30 },
    );
    fc.assert(
      fc.property(runs, fc.oneof(fc.constant('unknown' as const), fc.nat()), (given, estimate) => {
        const bytes = correctEstimate(estimate, given)?.bytes ?? 0;
        expect(Number.isSafeInteger(bytes)).toBe(true);
        expect(bytes).toBeGreaterThanOrEqual(Math.max(...given.map((one) => one.peakBytes)));
      }),
    );
  });
});

describe('measuredRun', () => {
  it('learns from what was measured, and from nothing else', () => {
    expect(measuredRun(attemptForTests({ peakBytes: 5 }))).toEqual({
      peakBytes: 5,
      askedBytes: 'none',
      seconds: 90,
    });
    expect(measuredRun(attemptForTests({ peakBytes: 'unknown' }))).toBeUndefined();
    expect(measuredRun(attemptForTests({ source: 'estimated' }))).toBeUndefined();
    expect(measuredRun(attemptForTests({ launchers: ['srun'] }))).toBeUndefined();
    expect(measuredRun(attemptForTests({ launchers: [] }))).toBeDefined();
  });
});

describe('expectedSeconds', () => {
  it('is the longest run that came to its end', () => {
    const runs = [{ ...run(1), seconds: 5 }, { ...run(1), seconds: 9 }, run(1, 'unknown')];
    expect(expectedSeconds(runs)).toBe(9);
    expect(expectedSeconds([run(1, 'unknown')])).toBe('unknown');
  });
});

const key = (command: readonly string[], more = {}) => workloadKey({ command, gpus: 1, ...more });

describe('workloadKey', () => {
  it('is the same for one workload, however it is written', () => {
    const plain = key(['python', 'train.py', '--batch', '8']);
    expect(key(['/usr/bin/python', 'train.py', '--batch=8'])).toBe(plain);
    expect(key([' python', 'train.py ', '--batch', '8'])).toBe(plain);
    expect(key(['a'], { workload: { batch: 1, mode: 'train' } })).toBe(
      key(['a'], { workload: { mode: 'train', batch: 1, sequence: undefined } }),
    );
  });

  it('differs wherever the memory may', () => {
    const keys = [
      key(['python', 'train.py', '--batch', '8']),
      key(['python', 'train.py', '--batch', '16']),
      key(['python', 'train.py --batch', '8']),
      key(['python', 'b/train.py', '--batch', '8']),
      key(['python', 'train.py', '--batch', '8'], { gpus: 2 }),
      key(['python', 'train.py', '--batch', '8'], { settings: { batch: 4 } }),
      key(['python', 'train.py', '--batch', '8'], { workload: { batch: 4 } }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });
});
