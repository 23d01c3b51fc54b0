import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { judgeFit, largestOffer } from './fit-verdict.js';

const lines = [
  { id: 'gpu:0', loadLineBytes: 72 * GiB },
  { id: 'gpu:1', loadLineBytes: 36 * GiB },
  { id: 'host', loadLineBytes: 100 * GiB },
];
const need = (bytes: number, gpus = 1) => ({ bytes, basis: 'stated', gpus }) as const;

const tooLarge = { bytes: 80 * GiB, basis: 'stated', gpus: 1, largestBytes: 72 * GiB };

describe('judgeFit', () => {
  it('takes what fits on enough devices', () => {
    expect(judgeFit(need(72 * GiB), lines).verdict).toBe('fits');
    expect(judgeFit(need(36 * GiB, 2), lines).verdict).toBe('fits');
    expect(judgeFit(need(100 * GiB, 0), lines).verdict).toBe('fits');
  });

  it('refuses at once what never fits, with the reason', () => {
    expect(judgeFit(need(80 * GiB), lines)).toEqual({
      verdict: 'refused',
      reason: { code: 'too-large', ...tooLarge, smallest: undefined },
    });
    expect(judgeFit(need(40 * GiB, 2), lines)).toMatchObject({
      reason: { code: 'too-large', bytes: 40 * GiB, gpus: 2, largestBytes: 36 * GiB },
    });
    expect(judgeFit(need(1, 3), lines)).toMatchObject({
      reason: { code: 'too-few-gpus', askedGpus: 3, foundGpus: 2 },
    });
  });

  it('never takes the host for several GPUs', () => {
    const host = lines.slice(2);
    expect(judgeFit(need(1, 1), host).verdict).toBe('fits');
    expect(judgeFit(need(1, 2), host)).toEqual({
      verdict: 'refused',
      reason: { code: 'too-few-gpus', askedGpus: 2, foundGpus: 0 },
    });
  });

  it('runs with a smaller batch where its plan says how', () => {
    const settings = { batch: 8, accumulation: 4, checkpointing: true, precision: 'bf16' } as const;
    const small = { bytes: 60 * GiB, settings };
    expect(judgeFit(need(80 * GiB), lines, small)).toMatchObject({
      verdict: 'degraded',
      need: { bytes: 60 * GiB, basis: 'estimated', gpus: 1 },
      settings,
      reason: { code: 'degraded', ...tooLarge, settings, degradedBytes: 60 * GiB },
    });
    expect(judgeFit(need(80 * GiB), lines, { ...small, bytes: 73 * GiB })).toMatchObject({
      verdict: 'refused',
      reason: { code: 'too-large', smallest: { settings, bytes: 73 * GiB } },
    });
  });

  it('knows the most it can offer, which is the budget of a plan', () => {
    expect(largestOffer(lines, { gpus: 2 })).toBe(36 * GiB);
    expect(largestOffer([], { gpus: 1 })).toBeUndefined();
  });
});
