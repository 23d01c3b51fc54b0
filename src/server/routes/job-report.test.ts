import { describe, expect, it } from 'vitest';
import { madeJob } from '../../jobs/daemon/made-for-tests.js';
import { attemptForTests } from '../../report/job-for-tests.js';
import { renderRunHtml } from '../../report/run-html.js';
import { jobReport } from './report-routes.js';

const ended = madeJob({
  id: '7',
  state: 'failed',
  name: '<b>bert</b>',
  reason: 'It ended with exit code 3.',
  startedAt: '2026-01-01T00:00:01.000Z',
  endedAt: '2026-01-01T00:01:01.000Z',
  waiting: null,
  attempts: [attemptForTests({ exitCode: 3 })],
});

describe('the report of a job', () => {
  it('is that of a run, with the reason of its end', () => {
    const report = jobReport(ended, '1.2.3');
    expect(report).toMatchObject({
      outcome: 'failed',
      exitCode: 3,
      startedAt: '2026-01-01T00:00:01.000Z',
      notes: ['It ended with exit code 3.', ended.need.why],
    });
    const page = renderRunHtml(report ?? expect.fail('there is none'));
    expect(page).toContain('It ended with exit code 3.');
    expect(page).not.toContain('<b>bert</b>');
  });

  it('is not there while the job waits or runs, and where it never ran', () => {
    expect(jobReport({ ...ended, state: 'running', endedAt: null }, '')).toBeUndefined();
    expect(jobReport({ ...ended, state: 'expired', startedAt: null }, '')).toBeUndefined();
    expect(jobReport({ ...ended, state: 'cancelled', startedAt: null }, '')).toBeUndefined();
    expect(jobReport({ ...ended, state: 'cancelled' }, '')?.outcome).toBe('interrupted');
  });
});
