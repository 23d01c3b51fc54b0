import { describe, expect, it } from 'vitest';
import { asMap, madeJob, madeWaiting } from '../made-for-tests.js';
import { type JobFilter, listedJobs } from './job-list.js';

const waiting = (position: number) => madeWaiting({ position });
const jobs = asMap([
  madeJob({ id: '1', state: 'succeeded', endedAt: '2026-01-01T01:00:00Z', name: 'BERT' }),
  madeJob({ id: '2', state: 'failed', endedAt: '2026-01-01T02:00:00Z' }),
  madeJob({ id: '3', state: 'running' }),
  madeJob({ id: '4', waiting: waiting(2) }),
  madeJob({ id: '5', waiting: waiting(1) }),
  madeJob({ id: '6', priority: 0 }),
  madeJob({ id: '10', priority: 9, command: ['python', 'sweep.py', '--lr', '0.1'] }),
  madeJob({ id: '12', state: 'running' }),
]);

function ids(filter: Partial<JobFilter>): readonly string[] {
  return listedJobs(jobs, { state: 'all', search: '', ...filter }).map(({ id }) => id);
}

describe('the list of jobs', () => {
  it('has what runs, then what waits by its turn, then what ended, the latest first', () => {
    expect(ids({})).toEqual(['12', '3', '5', '4', '10', '6', '2', '1']);
  });

  it('is the same whatever it was before', () => {
    const all = listedJobs(jobs, { state: 'all', search: '' });
    const gone = madeJob({ id: '77' });
    const outdated = madeJob({ id: '3', state: 'waiting' });
    for (const before of [all, all.toReversed(), [gone, outdated, ...all.slice(4)]]) {
      expect(listedJobs(jobs, { state: 'all', search: '' }, before)).toEqual(all);
    }
  });

  it('is narrowed by state', () => {
    expect(ids({ state: 'waiting' })).toEqual(['5', '4', '10', '6']);
    expect(ids({ state: 'ended' })).toEqual(['2', '1']);
    expect(ids({ state: 'failed' })).toEqual(['2']);
  });

  it('is searched by name, command and id, all words of it, in any case', () => {
    expect(ids({ search: 'bert' })).toEqual(['1']);
    expect(ids({ search: 'SWEEP 0.1' })).toEqual(['10']);
    expect(ids({ search: '#12' })).toEqual(['12']);
    expect(ids({ search: 'sweep bert' })).toEqual([]);
    expect(ids({ search: '#1', state: 'ended' })).toEqual(['1']);
  });
});
