import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../../units/bytes.js';
import { attemptForTests } from '../../store/attempt-for-tests.js';
import { endOf } from './endings.js';

const outOfMemory = {
  kind: 'cuda',
  askedBytes: 96 * MiB,
  freeBytes: 'unknown',
  totalBytes: 'unknown',
  message: '',
} as const;
const ran = attemptForTests();
const ranOut = attemptForTests({ exitCode: 1, outOfMemory, peakBytes: 4 * GiB });
const finished = (outcome: 'succeeded' | 'failed' | 'interrupted', exitCode: number | 'unknown') =>
  ({ type: 'finished', at: '2026-11-15T00:00:00.000Z', outcome, exitCode }) as const;
const end = (parts: Partial<Parameters<typeof endOf>[0]>) =>
  endOf({
    news: finished('succeeded', 0),
    attempts: [ran],
    ending: undefined,
    wasStopped: false,
    ...parts,
  });
const cancelled = { state: 'cancelled', reason: 'Cancelled.' } as const;

describe('endOf', () => {
  it('has nothing to say of what went well, and tells what it took where it did not at once', () => {
    expect(end({})).toEqual({ state: 'succeeded', reason: '' });
    expect(end({ attempts: [ranOut, ran] }).reason).toBe(
      'It ran out of memory once and was recovered with batch 8 x 1, on gpu:0.',
    );
  });

  it('tells why it failed', () => {
    const failed = (exitCode: number | 'unknown', attempts = [attemptForTests({ exitCode })]) =>
      end({ news: finished('failed', exitCode), attempts }).reason;
    expect(failed(3)).toBe('It ended with exit code 3.');
    expect(failed(139)).toBe('It was ended by SIGSEGV (exit code 139).');
    expect(failed('unknown')).toBe('How it ended is unknown.');
    expect(failed(1, [ranOut, ranOut])).toBe(
      'It ran out of memory 2 times; the last time it asked for 96.0 MiB when it held 4.0 GiB.',
    );
    expect(end({ news: { type: 'lost', why: 'Nobody stayed.' } })).toEqual({
      state: 'failed',
      reason: 'Nobody stayed.',
    });
  });

  it('ends as was decided, unless it was done before anybody asked', () => {
    const interrupted = finished('interrupted', 143);
    expect(end({ news: interrupted, ending: cancelled, wasStopped: true })).toEqual(cancelled);
    expect(end({ ending: cancelled, wasStopped: true })).toEqual(cancelled);
    expect(end({ ending: cancelled }).state).toBe('succeeded');
    expect(end({ news: { type: 'lost', why: '' }, ending: cancelled })).toEqual(cancelled);
  });

  it('does not call cancelled what somebody else interrupted', () => {
    expect(end({ news: finished('interrupted', 143), wasStopped: true })).toEqual({
      state: 'failed',
      reason: 'It was interrupted from outside. It was ended by SIGTERM (exit code 143).',
    });
  });
});
