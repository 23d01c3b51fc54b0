import { describe, expect, it } from 'vitest';
import { madeJob } from '../../../../src/jobs/daemon/made-for-tests.js';
import { attemptForTests } from '../../../../src/report/job-for-tests.js';
import type { Attempt } from '../../../../src/run/types.js';
import { GiB } from '../../../../src/units/bytes.js';
import { memoryChart, stepCharts } from '../../charts/compared-lines.js';
import { comparedFigures, differingSettings } from './compare-jobs.js';

const point = (step: number, loss: number) => ({
  atSeconds: step,
  step,
  samplesPerSecond: 10 * step,
  loss,
  microbatch: 4,
  peakBytes: 'unknown' as const,
});

function ran(id: string, seconds: number, command: readonly string[], given: Partial<Attempt>) {
  return madeJob({
    id,
    state: 'succeeded',
    command,
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString(),
    waiting: null,
    attempts: [attemptForTests({ command, ...given })],
  });
}

const one = ran('1', 100, ['python', 'train.py', '--lr', '1e-3', '--fast'], {
  peakBytes: 8 * GiB,
  progress: [point(1, 4), point(2, 2)],
});
const other = ran('2', 150, ['python', 'train.py', '--lr=3e-4', '--epochs', '2'], {
  peakBytes: 6 * GiB,
  progress: [point(1, 4), point(4, 1)],
});

describe('two jobs side by side', () => {
  it('show their figures and how far they are apart; what is known of neither is left out', () => {
    const rows = comparedFigures([one, other], 0);
    const row = (name: string) => rows.find((found) => found.name === name);
    expect(row('Ran')).toEqual({
      name: 'Ran',
      values: ['1 min 40 s', '2 min 30 s'],
      difference: '+50 %',
    });
    expect(row('Peak memory')).toMatchObject({
      values: ['8.0 GiB', '6.0 GiB'],
      difference: '−25 %',
    });
    expect(row('Loss')).toMatchObject({ values: ['2.000', '1.000'] });
    expect(row('Attempts')).toMatchObject({ difference: 'the same' });
    expect(row('Reserved')).toBeUndefined();
  });

  it('show the settings that differ, and no others', () => {
    expect(differingSettings([one, other])).toEqual([
      { name: '--lr', values: ['1e-3', '3e-4'], difference: '' },
      { name: '--fast', values: ['set', 'not set'], difference: '' },
      { name: '--epochs', values: ['not set', '2'], difference: '' },
    ]);
    expect(differingSettings([one, one])).toEqual([]);
  });

  it('are drawn on the same axes', () => {
    const charts = stepCharts([one.attempts[0], other.attempts[0]]);
    expect(charts.map(({ name }) => name)).toEqual(['Samples a second', 'Loss']);
    expect(charts[0]).toMatchObject({ across: 'steps, up to 4', top: '40' });
    // The second goes twice as far, and its last point is at the right end, at the top.
    expect(charts[0]?.paths.map((path) => path.split(' ').at(-1))).toEqual(['480,90', '960,3']);
    const history = { epochMs: [1000, 3000], usedBytes: [GiB, 2 * GiB] };
    expect(memoryChart([history, { epochMs: [5], usedBytes: [null] }])).toEqual([
      {
        name: 'Memory',
        across: 'time, up to 2.0 s',
        top: '2.0 GiB',
        paths: ['0,90 960,3', ''],
      },
    ]);
    expect(stepCharts([{}, undefined])).toEqual([]);
  });
});
