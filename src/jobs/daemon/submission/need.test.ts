import { describe, expect, it } from 'vitest';
import { GiB } from '../../../units/bytes.js';
import { estimateOf, judgeNeed, type NeedFacts } from './need.js';

const facts = (parts: Partial<NeedFacts> = {}): NeedFacts => ({
  gpus: 1,
  statedBytes: undefined,
  estimatedBytes: 'unknown',
  runs: [],
  offerBytes: 72 * GiB,
  ...parts,
});
const run = (peakGiB: number, asked: 'none' | number = 'none') => ({
  peakBytes: peakGiB * GiB,
  askedBytes: asked,
  seconds: 60,
});

describe('judgeNeed', () => {
  it('takes a word for it, and shows what was measured beside it', () => {
    expect(judgeNeed(facts({ statedBytes: 6 * GiB, runs: [run(4), run(5)] }))).toEqual({
      need: { bytes: 6 * GiB, basis: 'stated', gpus: 1 },
      evidence: {
        reason: { code: 'stated', bytes: 6 * GiB, runs: 2, maxPeakBytes: 5 * GiB },
        estimatedBytes: 'unknown',
        runs: 2,
      },
      alone: false,
    });
  });

  it('goes by what was measured, else by the estimate, else tries it alone', () => {
    expect(judgeNeed(facts({ estimatedBytes: 8 * GiB, runs: [run(6)] })).need.basis).toBe(
      'measured',
    );
    expect(judgeNeed(facts({ estimatedBytes: 8 * GiB }))).toMatchObject({
      need: { bytes: 8 * GiB, basis: 'estimated' },
      alone: false,
    });
    expect(judgeNeed(facts())).toMatchObject({ need: { bytes: 72 * GiB }, alone: true });
  });

  it('gives all of a device again to one that ran out on it and came to its end all the same', () => {
    const runs = [run(40), run(72, 8 * GiB)];
    const judged = judgeNeed(facts({ runs }));
    expect(judged).toMatchObject({ need: { bytes: 72 * GiB, basis: 'measured' }, alone: true });
    expect(judged.evidence.reason).toMatchObject({ code: 'measured', wholeDevice: true });
    // One that never did needs more than there is, and says so.
    expect(judgeNeed(facts({ runs: [run(72, 8 * GiB)] })).need.bytes).toBeGreaterThan(80 * GiB);
  });
});

describe('estimateOf', () => {
  it('is unknown without an estimate', () => {
    expect(estimateOf(undefined)).toBe('unknown');
    expect(estimateOf({ ...judgeNeed(facts()).evidence, estimatedBytes: 7 })).toBe(7);
  });
});
