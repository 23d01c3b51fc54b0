import { describe, expect, it } from 'vitest';
import { effectiveBatch, outcomeOf, whereItStands } from './run-state.js';
import type { StartedEntry } from './store/journal-entry.js';
import type { RunPlan } from './store/run-plan.js';
import type { Attempt, RunSettings } from './types.js';

const settings: RunSettings = {
  batch_size: 8,
  accumulation: 4,
  checkpointing: false,
  precision: 'fp32',
  offload: false,
  device: 'host',
};
const plan: RunPlan = {
  schema: 1,
  id: 'x',
  command: ['x'],
  folder: '/',
  createdAt: '',
  settings,
  memoryBytes: null,
  maxAttempts: 8,
  pinnedDevice: false,
  bridge: '',
  reports: [],
};
const limit = { bytes: 'none', by: 'none', why: '' } as const;
const started: StartedEntry = {
  type: 'started',
  at: '',
  number: 1,
  settings,
  command: ['x'],
  limit,
  cgroup: null,
  killsBefore: 0,
};
const attempt: Attempt = {
  number: 1,
  settings,
  command: ['x'],
  startedAt: '',
  endedAt: '',
  exitCode: 1,
  outOfMemory: null,
  rungs: [],
  peakBytes: 'unknown',
  source: 'measured',
  peakFrom: 'unknown',
  snapshot: null,
  limit,
};

describe('where a run stands', () => {
  it('is told by its journal, wherever its supervisor was killed', () => {
    expect(whereItStands([], plan)).toMatchObject({ number: 1, started: undefined, isOver: false });
    const stopped = { type: 'stopped', at: '', signal: 'SIGTERM' } as const;
    expect(whereItStands([stopped], plan)).toMatchObject({ started: undefined, isOver: true });
    expect(whereItStands([started, stopped], plan)).toMatchObject({ started, isOver: false });
    const attached = { type: 'attached', at: '', pid: 1 } as const;
    expect(whereItStands([started, attached], plan)).toMatchObject({ number: 1, started });
    const smaller = { ...settings, batch_size: 4, accumulation: 8 };
    const next = { rung: 'smaller-microbatch', why: '', settings: smaller } as const;
    expect(whereItStands([started, { type: 'ended', attempt, next }], plan)).toEqual({
      number: 2,
      settings: smaller,
      started: undefined,
      isOver: false,
    });
    expect(whereItStands([started, { type: 'ended', attempt, next: null }], plan)).toMatchObject({
      isOver: true,
    });
  });
});

describe('the end of a run', () => {
  it('is a success whenever the program says so', () => {
    expect(outcomeOf(0, true)).toBe('succeeded');
    expect(outcomeOf(130, true)).toBe('interrupted');
    expect(outcomeOf(1, false)).toBe('failed');
    expect(outcomeOf('unknown', false)).toBe('failed');
  });

  it('counts batches by what a step takes', () => {
    expect(effectiveBatch(plan)).toBe(32);
    expect(effectiveBatch({ ...plan, settings: { ...settings, batch_size: 'unknown' } })).toBe(
      'unknown',
    );
  });
});
