import { describe, expect, it } from 'vitest';
import { madeAttempt, madeJob } from '../made-for-tests.js';
import {
  declaredSettings,
  endWords,
  isRecoveryInReason,
  recoverySentence,
  storyOf,
} from './job-story.js';

const sunk = madeAttempt({
  number: 1,
  exitCode: 1,
  outOfMemory: {
    kind: 'cuda',
    askedBytes: 2 ** 30,
    freeBytes: 2 ** 29,
    totalBytes: 'unknown',
    message: 'CUDA out of memory.',
  },
  rungs: [{ rung: 'smaller-microbatch', why: '32 is too much.', atSeconds: 60 }],
});
const second = madeAttempt({
  number: 2,
  settings: { ...sunk.settings, batch_size: 16, accumulation: 2 },
  startedAt: '2026-01-01T00:02:01.000Z',
  endedAt: '2026-01-01T00:09:00.000Z',
});
const recovered = madeJob({
  id: '1',
  state: 'succeeded',
  startedAt: sunk.startedAt,
  endedAt: second.endedAt,
  attempts: [sunk, second],
});

describe('what happened to a job', () => {
  it('is told in order, with the reasons', () => {
    expect(storyOf(recovered).map(({ title }) => title)).toEqual([
      'Submitted',
      'Started',
      'Out of memory (cuda)',
      'Rung: smaller microbatch',
      'Attempt 2',
      'Succeeded',
    ]);
    const [, , out, rung] = storyOf(recovered);
    expect(out?.detail).toBe('Asked for 1.0 GiB with 512 MiB free. CUDA out of memory.');
    expect(rung?.detail).toBe('32 is too much.');
  });

  it('has the attempt that goes on, and its rungs', () => {
    const { number, settings, startedAt } = second;
    const rungs = [{ rung: 'grow-back', why: 'Room again.', atSeconds: 5 }] as const;
    const job = madeJob({
      id: '1',
      state: 'running',
      startedAt: sunk.startedAt,
      attempts: [sunk],
      currentAttempt: { number, settings, startedAt, rungs },
    });
    expect(
      storyOf(job)
        .slice(-2)
        .map(({ title }) => title),
    ).toEqual(['Attempt 2', 'Grew back']);
    expect(recoverySentence(job)).toContain('recovered with batch 16 x 2');
  });

  it('is one sentence about memory, and none where it never ran out', () => {
    expect(recoverySentence(recovered)).toBe(
      'It ran out of memory once and was recovered with batch 16 x 2, on gpu:0.',
    );
    expect(recoverySentence({ ...recovered, state: 'failed' })).toBe('It ran out of memory once.');
    expect(recoverySentence({ ...recovered, attempts: [sunk, { ...sunk, number: 2 }] })).toBe(
      'It ran out of memory 2 times.',
    );
    expect(recoverySentence({ ...recovered, attempts: [second] })).toBeUndefined();
  });

  it('tells of precision and checkpointing only what the program is told', () => {
    const { settings } = sunk;
    expect(declaredSettings(['train'], settings)).toEqual({});
    expect(declaredSettings(['train', '{precision}', '{checkpointing}'], settings)).toEqual({
      precision: 'fp32',
      checkpointing: false,
    });
    expect(
      declaredSettings(['train'], { ...settings, precision: 'bf16', checkpointing: true }),
    ).toEqual({ precision: 'bf16', checkpointing: true });
  });

  it('begins with why it was degraded', () => {
    const degraded = { batch: 8, accumulation: 4, why: 'It needs 80.0 GiB.', whyDetails: null };
    const [submitted] = storyOf(madeJob({ id: '1', degraded }));
    expect(submitted?.detail).toBe('It needs 80.0 GiB. Stated: 6.0 GiB.');
  });

  it('says what is unknown', () => {
    expect(endWords(madeAttempt({ exitCode: 'unknown' }))).toBe('unknown');
    expect([endWords(sunk), endWords(second)]).toEqual(['out of memory', 'finished']);
  });
});

describe('isRecoveryInReason', () => {
  it.each([
    ['succeeded', [sunk, madeAttempt({ number: 2 })], true],
    ['failed', [sunk], true],
    ['failed', [sunk, madeAttempt({ number: 2, exitCode: 1 })], false],
    ['running', [sunk], false],
    ['cancelled', [sunk], false],
  ] as const)('of a job that %s, whatever the words of its reason are', (state, attempts, said) => {
    expect(isRecoveryInReason(madeJob({ id: '1', state, attempts }))).toBe(said);
  });
});
