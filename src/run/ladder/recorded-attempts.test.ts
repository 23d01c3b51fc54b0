import { expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import type { Attempt, OutOfMemory, RunSettings } from '../types.js';
import { climb, fitsByMeasure } from './climb.js';

/**
 * nanoGPT on an H200, limited to a third of what its batch of 12 takes: each attempt that ran out of
 * memory, as its report has it. Two samples ran; the first attempt failed in an evaluation, the second
 * in a forward, the third in a backward, so that each tells only the least that a size needs.
 */
const limitBytes = 5_340_747_093;
const recorded = [
  {
    batch: 12,
    peakBytes: 3_341_241_344,
    asked: '2.30 GiB',
    held: '3.11 GiB',
    unused: '115.54 MiB',
  },
  { batch: 6, peakBytes: 4_139_170_816, asked: '1.15 GiB', held: '3.85 GiB', unused: '550.58 MiB' },
  {
    batch: 3,
    peakBytes: 4_913_609_728,
    asked: '590.00 MiB',
    held: '4.27 GiB',
    unused: '621.72 MiB',
  },
] as const;

/** What the failed process of the first attempt measured on the same card before it ended; two samples ran then. */
const measured = [
  { microbatch: 1, peakBytes: 3_502_831_104 },
  { microbatch: 2, peakBytes: 4_941_878_784 },
];

it('needs one restart where the failed process measured a few samples before it ended', () => {
  const [first] = recorded;
  expect(fitsByMeasure(first.batch, measured, limitBytes)).toEqual({
    most: 2,
    why: '12 did not fit; measured after it failed: 1.9 GiB and 1.3 GiB a sample, so 2 fit under 4.7 GiB',
  });
});

it('comes to the largest batch that fits, by what each recorded attempt tells', () => {
  const earlier: Attempt[] = [];
  const chosen = recorded.map(({ batch, peakBytes, asked, held, unused }) => {
    const settings: RunSettings = {
      batch_size: batch,
      accumulation: 48 / batch,
      checkpointing: false,
      precision: 'fp32',
      offload: false,
      device: 'gpu:0',
    };
    const [figure = '', unit] = asked.split(' ');
    const outOfMemory: OutOfMemory = {
      kind: 'cuda',
      askedBytes: Math.round(Number(figure) * (unit === 'GiB' ? GiB : MiB)),
      freeBytes: 'unknown',
      totalBytes: limitBytes,
      message: `CUDA out of memory. Tried to allocate ${asked}. Of the allocated memory ${held} is allocated by PyTorch, and ${unused} is reserved by PyTorch but unallocated.`,
    };
    const next = climb({
      settings,
      outOfMemory,
      peakBytes,
      limitBytes,
      baseBytes: 'unknown',
      earlier: [...earlier],
      measured: [],
      declared: new Set(['batch_size', 'accumulation']),
      batch: 48,
      savedProgress: false,
      canSpill: false,
    });
    earlier.push({
      number: earlier.length + 1,
      settings,
      command: [],
      startedAt: '',
      endedAt: '',
      exitCode: 1,
      outOfMemory,
      rungs: [],
      peakBytes,
      source: 'measured',
      peakFrom: 'sdk',
      limit: { bytes: limitBytes, by: 'sdk', why: '' },
      snapshot: null,
    });
    return next;
  });
  expect(chosen.map((next) => next?.settings.batch_size)).toEqual([6, 3, 2]);
  expect(chosen.map((next) => next?.why.split(';')[0])).toEqual([
    '12 needed at least 5.4 GiB of 5.0 GiB',
    '6 needed at least 5.0 GiB of 5.0 GiB',
    // 4.3 and 0.6 GiB are less than the limit: it was free, in pieces.
    '3 needed more than the 5.0 GiB there are',
  ]);
  expect(chosen.map((next) => next?.settings.expandable_segments ?? false)).toEqual([
    false,
    false,
    true,
  ]);
});
