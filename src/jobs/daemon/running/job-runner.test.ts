import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Engine, RunNews } from '../../../engine/types.js';
import { createVirtualClock } from '../../../time/clock.js';
import { GiB, MiB } from '../../../units/bytes.js';
import { attemptForTests } from '../../store/attempt-for-tests.js';
import { type JobStore, openJobStore } from '../../store/job-store.js';
import { storeFailure } from '../../store/store-failures.js';
import type { JobState } from '../../types.js';
import { JobFiles } from './job-files.js';
import { endOf, JobRunner } from './job-runner.js';

let home: string;
let store: JobStore;
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-runner-'));
  store = await openJobStore(join(home, 'jobs.db'));
});
afterEach(() => {
  store.close();
  rmSync(home, { recursive: true, force: true });
});

describe('while the disk is full', () => {
  it('what happened to a run is kept in mind, and written in its order once there is room', () => {
    let onNews: (news: RunNews) => void = () => {};
    const engine: Engine = {
      openRun: (_, heard) => {
        onNews = heard;
        return {
          stop() {},
          limit() {},
          limitAsked: () => undefined,
          progress: () => [],
          release() {},
        };
      },
      use: () => ({ knows: () => true, runOf: () => undefined, hostBytes: () => 0 }),
      forget() {},
      close() {},
    };
    let isFull = true;
    const unlessFull = <T>(write: () => T): T => {
      if (isFull) throw storeFailure('disk-full', 'jobs.db');
      return write();
    };
    const ends: JobState[] = [];
    const runner = new JobRunner({
      store: {
        addAttempt: (...all) => unlessFull(() => store.addAttempt(...all)),
        end: (...all) => unlessFull(() => store.end(...all)),
        endSoon: (...all) => unlessFull(() => store.endSoon(...all)),
        note: (...all) => unlessFull(() => store.note(...all)),
      },
      engine,
      files: new JobFiles(home),
      clock: createVirtualClock(),
      signal: new AbortController().signal,
      folder: home,
      contextBytes: () => 0,
    });
    runner.ended.listen(({ state }) => ends.push(state));
    const need = { bytes: 10, basis: 'stated', gpus: 1 } as const;
    const details = {};
    const job = {
      name: 'a',
      owner: 'ada',
      command: ['a'],
      priority: 0,
      need,
      workloadKey: 'k',
      details,
    };
    store.submit(job, 1);
    const reservation = { devices: ['gpu:0'], bytes: 10, basis: 'stated' } as const;
    const stored = store.start('1', { reservation, runId: 'r', atMs: 2 });
    runner.run(stored, reservation, 'r');

    onNews({ type: 'ended', attempt: attemptForTests(), next: null });
    onNews({ type: 'finished', at: '2026-11-15T00:00:09.000Z', outcome: 'succeeded', exitCode: 0 });
    runner.sawUse(new Map([['1', new Map([['gpu:0', 2 ** 40]])]]));
    runner.tryAgain();
    expect(ends).toEqual([]);
    expect(runner.running.get('1')).toBeDefined();
    expect(store.job('1')?.job).toMatchObject({ state: 'running', attempts: [] });

    isFull = false;
    runner.tryAgain();
    expect(ends).toEqual(['succeeded']);
    expect(store.job('1')?.job).toMatchObject({
      state: 'succeeded',
      attempts: [{ number: 1 }],
    });
    expect(runner.running.all()).toEqual([]);
  });
});

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
