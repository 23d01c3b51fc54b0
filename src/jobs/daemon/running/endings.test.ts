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
const cancelled = {
  state: 'cancelled',
  reason: { code: 'cancelled', during: 'running' },
} as const;

describe('endOf', () => {
  it('has nothing to say of what went well, and tells what it took where it did not at once', () => {
    expect(end({})).toEqual({ state: 'succeeded', reason: null });
    expect(end({ attempts: [ranOut, ran] }).reason).toEqual({
      code: 'recovered',
      times: 1,
      settings: ran.settings,
    });
  });

  it('tells why it failed', () => {
    const failed = (exitCode: number | 'unknown', attempts = [attemptForTests({ exitCode })]) =>
      end({ news: finished('failed', exitCode), attempts }).reason;
    expect(failed(3)).toEqual({ code: 'exited', exitCode: 3, signal: null });
    expect(failed(139)).toEqual({ code: 'exited', exitCode: 139, signal: 'SIGSEGV' });
    expect(failed('unknown')).toEqual({ code: 'exited', exitCode: 'unknown', signal: null });
    expect(failed(1, [ranOut, ranOut])).toEqual({
      code: 'out-of-memory',
      times: 2,
      askedBytes: 96 * MiB,
      peakBytes: 4 * GiB,
    });
    const notStarted = { ...finished('failed', 127), why: 'No such program.' };
    expect(end({ news: notStarted }).reason).toEqual({
      code: 'not-started',
      message: 'No such program.',
    });
    expect(end({ news: { type: 'lost', why: 'Nobody stayed.' } })).toEqual({
      state: 'failed',
      reason: { code: 'lost', message: 'Nobody stayed.' },
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
      reason: { code: 'interrupted', exitCode: 143, signal: 'SIGTERM' },
    });
  });
});
