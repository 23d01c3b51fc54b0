import { expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { smallerMicrobatch } from './sizes.js';

it('says what a size needed only where that was read', () => {
  const failed = {
    microbatch: 256,
    limitBytes: 3 * GiB,
    askedBytes: 'unknown',
    peakBytes: 'unknown',
    baseBytes: 0,
    earlier: [],
  } as const;
  expect(smallerMicrobatch(failed)).toEqual({ most: 128, why: '256 did not fit' });
  expect(smallerMicrobatch({ ...failed, peakBytes: 3 * GiB })).toEqual({
    most: 128,
    why: '256 needed more than the 3.0 GiB there are',
  });
  expect(smallerMicrobatch({ ...failed, peakBytes: 2 * GiB, askedBytes: 4 * GiB })?.why).toBe(
    '256 needed at least 6.0 GiB of 3.0 GiB',
  );
});

it('does not add what was asked for to a peak of an earlier time', () => {
  const failed = {
    microbatch: 256,
    limitBytes: 4 * GiB,
    peakBytes: 4 * GiB,
    heldBytes: GiB,
    askedBytes: 3.5 * GiB,
    baseBytes: 'unknown',
    earlier: [],
  } as const;
  expect(smallerMicrobatch(failed)).toEqual({
    most: 128,
    why: '256 needed at least 4.5 GiB of 4.0 GiB',
  });
  // 7.5 GiB would have been too much for 128.
  expect(smallerMicrobatch({ ...failed, heldBytes: 'unknown' })?.most).toBe(122);
});
