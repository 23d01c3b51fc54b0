import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { judgeFit, largestOffer } from './fit-verdict.js';

const lines = [
  { id: 'gpu:0', lineBytes: 72 * GiB },
  { id: 'gpu:1', lineBytes: 36 * GiB },
  { id: 'host', lineBytes: 100 * GiB },
];
const need = (bytes: number, gpus = 1) => ({ bytes, basis: 'stated', gpus }) as const;

describe('judgeFit', () => {
  it('takes what fits on enough devices', () => {
    expect(judgeFit(need(72 * GiB), lines).verdict).toBe('fits');
    expect(judgeFit(need(36 * GiB, 2), lines).verdict).toBe('fits');
    expect(judgeFit(need(100 * GiB, 0), lines).verdict).toBe('fits');
  });

  it('refuses at once what never fits, with the reason', () => {
    expect(judgeFit(need(80 * GiB), lines)).toEqual({
      verdict: 'refused',
      reason: 'It needs 80.0 GiB (stated); the most that any device can be promised is 72.0 GiB.',
    });
    expect(judgeFit(need(40 * GiB, 2), lines)).toMatchObject({
      reason: expect.stringContaining('each of 2 GPUs can be promised is 36.0 GiB'),
    });
    expect(judgeFit(need(1, 3), lines)).toMatchObject({
      reason: 'It asks for 3 devices at once; there are 2.',
    });
  });

  it('runs with a smaller batch where its plan says how', () => {
    const small = { bytes: 60 * GiB, batch: 8, accumulation: 4 };
    expect(judgeFit(need(80 * GiB), lines, small)).toMatchObject({
      verdict: 'degraded',
      need: { bytes: 60 * GiB, basis: 'estimated', gpus: 1 },
      settings: { batch: 8, accumulation: 4 },
      reason: expect.stringContaining('batch 8 and accumulation 4'),
    });
    expect(judgeFit(need(80 * GiB), lines, { ...small, bytes: 73 * GiB })).toMatchObject({
      verdict: 'refused',
      reason: expect.stringContaining('smallest plan still needs 73.0 GiB'),
    });
  });

  it('knows the most it can offer, which is the budget of a plan', () => {
    expect(largestOffer(lines, { gpus: 2 })).toBe(36 * GiB);
    expect(largestOffer([], { gpus: 1 })).toBeUndefined();
  });
});
