import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { judgeFit, largestOffer } from './fit-verdict.js';

const lines = [
  { id: 'gpu:0', loadLineBytes: 72 * GiB },
  { id: 'gpu:1', loadLineBytes: 36 * GiB },
  { id: 'host', loadLineBytes: 100 * GiB },
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
      reason: 'It needs 80.0 GiB (stated); the largest reservation any device allows is 72.0 GiB.',
    });
    expect(judgeFit(need(40 * GiB, 2), lines)).toMatchObject({
      reason: expect.stringContaining('the largest reservation each of 2 GPUs allows is 36.0 GiB'),
    });
    expect(judgeFit(need(1, 3), lines)).toMatchObject({
      reason: 'It asks for 3 GPUs at once; there are 2.',
    });
  });

  it('never takes the host for several GPUs', () => {
    const host = lines.slice(2);
    expect(judgeFit(need(1, 1), host).verdict).toBe('fits');
    expect(judgeFit(need(1, 2), host)).toEqual({
      verdict: 'refused',
      reason: 'It asks for 2 GPUs at once; there is none.',
    });
  });

  it('runs with a smaller batch where its plan says how', () => {
    const settings = { batch: 8, accumulation: 4, checkpointing: true, precision: 'bf16' } as const;
    const small = { bytes: 60 * GiB, settings };
    expect(judgeFit(need(80 * GiB), lines, small)).toMatchObject({
      verdict: 'degraded',
      need: { bytes: 60 * GiB, basis: 'estimated', gpus: 1 },
      settings,
      reason:
        'As asked, it needs 80.0 GiB (stated); the largest reservation any device allows is 72.0 GiB. It runs with batch 8 x 4, checkpointing and bf16 instead, which needs 60.0 GiB (estimated).',
    });
    expect(judgeFit(need(80 * GiB), lines, { ...small, bytes: 73 * GiB })).toMatchObject({
      verdict: 'refused',
      reason: expect.stringContaining('it still needs 73.0 GiB'),
    });
  });

  it('knows the most it can offer, which is the budget of a plan', () => {
    expect(largestOffer(lines, { gpus: 2 })).toBe(36 * GiB);
    expect(largestOffer([], { gpus: 1 })).toBeUndefined();
  });
});
