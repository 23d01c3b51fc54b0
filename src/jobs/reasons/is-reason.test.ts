import { expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import { isNeedReason, needReasonWords } from './is-reason.js';
import type { NeedReason } from './types.js';

const measured = {
  code: 'measured',
  runs: 3,
  outOfMemory: 0,
  maxPeakBytes: 6 * GiB,
  marginBytes: GiB / 2,
  estimatedBytes: 'unknown',
  wholeDevice: false,
} as const;

it.each<[NeedReason, string]>([
  [{ code: 'stated', bytes: 6 * GiB, runs: 0, maxPeakBytes: 'unknown' }, 'Stated: 6.0 GiB.'],
  [
    { code: 'stated', bytes: 6 * GiB, runs: 1, maxPeakBytes: 4 * GiB },
    'Stated: 6.0 GiB. The one run of it took 4.0 GiB at most.',
  ],
  [
    { code: 'stated', bytes: 6 * GiB, runs: 2, maxPeakBytes: 5 * GiB },
    'Stated: 6.0 GiB. The 2 runs of it took 5.0 GiB at most.',
  ],
  [
    { code: 'no-estimate', traceFailure: null },
    'No estimate yet: it gets a whole device for its first run, which is measured.',
  ],
  [
    { code: 'no-estimate', traceFailure: 'The trace took longer than 5 s.' },
    'No estimate yet: it gets a whole device for its first run, which is measured. It could not be traced: The trace took longer than 5 s.',
  ],
  [
    { code: 'estimated', bytes: 8 * GiB, traced: true },
    'Estimated at 8.0 GiB; no run of it was measured yet. The program was traced before its first run.',
  ],
  [measured, 'Measured in 3 runs: at most 6.0 GiB, with a margin of 512 MiB.'],
  [
    { ...measured, runs: 1, outOfMemory: 1, estimatedBytes: 8 * GiB, wholeDevice: true },
    'Measured in 1 run, 1 of them out of memory: at most 6.0 GiB, with a margin of 512 MiB; the estimate was 8.0 GiB. It gets a whole device, as when it succeeded.',
  ],
  [{ code: 'earlier-text', text: 'Stated: 1.0 GiB.' }, 'Stated: 1.0 GiB.'],
])('%o', (reason, words) => {
  expect(needReasonWords(reason)).toBe(words);
  expect(isNeedReason(JSON.parse(JSON.stringify(reason)))).toBe(true);
});

it.each([undefined, null, 'Stated.', {}, { code: 'exited' }])('%o is not a reason', (value) => {
  expect(isNeedReason(value)).toBe(false);
});
