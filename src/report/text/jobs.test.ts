import { describe, expect, it } from 'vitest';
import { madeWaiting } from '../../jobs/daemon/made-for-tests.js';
import { GiB } from '../../units/bytes.js';
import { attemptForTests, jobForTests, nowForTests, runningJobForTests } from '../job-for-tests.js';
import { countsWords, jobEndWords, jobsTable, jobText, submittedWords } from './job-text.js';

const style = { colour: false, unicode: true };
const options = { columns: 150, nowMs: nowForTests, style };
const ended = runningJobForTests({
  id: '3',
  state: 'failed',
  reason: 'Its program ended with exit code 7.',
  endedAt: '2026-11-15T09:00:05.000Z',
  attempts: [attemptForTests()],
});

describe('jobsTable', () => {
  it('shows what runs, what waits and why, and what became of the rest', () => {
    const first = madeWaiting({ why: 'It is about to start.' });
    const jobs = [
      ended,
      jobForTests(),
      jobForTests({
        id: '13',
        gpus: 2,
        waiting: { ...first, expectedStartAt: '2026-11-15T09:03:06Z' },
      }),
      runningJobForTests({ id: '2', attempts: [attemptForTests()] }),
    ];
    expect(jobsTable(jobs, options)).toEqual([
      'ID  NAME      STATE    MEMORY              ON     TIME',
      '2   train.py  running  6.0 GiB stated      gpu:0  runs 4 s   Ran out of memory 1 x and was recovered.',
      '13  train.py  waiting  2 x 6.0 GiB stated         waits 6 s  It is about to start. Expected to start in 3 min.',
      '12  train.py  waiting  6.0 GiB stated             waits 6 s  It needs 6.0 GiB on a device; the most that is free is 2.0 GiB.',
      '3   train.py  failed   6.0 GiB stated      gpu:0  ran 3 s    Its program ended with exit code 7.',
    ]);
  });

  it('never is wider than the terminal, nor lets a name move its cursor', () => {
    const name = `evil\u001B[2J${'x'.repeat(200)}`;
    for (const columns of [20, 40, 80]) {
      const lines = jobsTable([jobForTests({ name })], { ...options, columns });
      for (const line of lines) {
        expect(line.length).toBeLessThanOrEqual(columns);
        expect(line).not.toContain('\u001B');
      }
    }
  });
});

describe('jobText', () => {
  it('tells what a job asked for, what it got, and every attempt', () => {
    const second = attemptForTests({
      number: 2,
      outOfMemory: null,
      exitCode: 0,
      rungs: [],
      peakBytes: 3 * GiB,
    });
    const text = jobText(
      runningJobForTests({
        state: 'succeeded',
        endedAt: '2026-11-15T09:00:06.000Z',
        attempts: [attemptForTests(), second],
        need: {
          bytes: 8 * GiB,
          basis: 'measured',
          why: '3 runs.',
          whyDetails: null,
          estimatedBytes: 6 * GiB,
          runs: 3,
        },
        degraded: { batch: 8, accumulation: 4, why: 'It needs more.', whyDetails: null },
        log: { bytes: 2048 },
      }),
      options,
    );
    expect(text.split('\n')).toEqual([
      'Job 12  train.py  succeeded  ran 4 s',
      'command    python train.py --batch-size {batch_size}',
      'in         /srv/lab',
      'times      submitted 2026-11-15 09:00:00 UTC, started 2026-11-15 09:00:02 UTC, ended 2026-11-15 09:00:06 UTC',
      'reserved   6.0 GiB on gpu:0 (stated)',
      'need       8.0 GiB (measured). 3 runs. Estimated were 6.0 GiB.',
      'measured   6.0 GiB at most (measured), 75 % of the need',
      'degraded   batch 8 x 4',
      'attempt 1  batch 32 x 1, on gpu:0, 2.0 s, peak 6.0 GiB (measured), out of memory (cuda), asking for 512 MiB',
      '           smaller-microbatch: The batch is halved.',
      'attempt 2  batch 32 x 1, on gpu:0, 2.0 s, peak 3.0 GiB (measured), exit code 0',
      'log        2.0 KiB; "plimsoll logs 12" shows it',
    ]);
  });

  it('tells why it waits, and what goes on', () => {
    const waiting = madeWaiting({ why: 'So it is.' });
    const text = jobText(
      jobForTests({ waiting: { ...waiting, expiresAt: '2026-11-15T10:00:00Z' } }),
      options,
    );
    expect(text).toContain(
      'why        It is next. So it is. It gives up at 2026-11-15 10:00:00 UTC.\n',
    );
    const { settings, rungs } = attemptForTests();
    const currentAttempt = { number: 2, settings, rungs, startedAt: '' };
    const running = jobText(runningJobForTests({ currentAttempt }), options);
    expect(running).toContain('attempt 2  batch 32 x 1, on gpu:0, goes on\n');
    expect(running).toContain('it holds 5.0 GiB now (measured)');
  });
});

describe('the words of a job', () => {
  it('say where it stands', () => {
    expect(submittedWords(jobForTests(), nowForTests)).toBe(
      'job 12 (train.py) waits for 6.0 GiB (stated). It is number 2 in the queue. It needs 6.0 GiB on a device; the most that is free is 2.0 GiB. "plimsoll logs -f 12" follows it.',
    );
    expect(submittedWords(runningJobForTests(), nowForTests)).toBe(
      'job 12 (train.py) runs; reserved: 6.0 GiB on gpu:0 (stated). "plimsoll logs -f 12" follows it.',
    );
    const reservation = {
      devices: ['gpu:0'],
      bytes: 6 * GiB,
      basis: 'stated',
      simulated: true,
    } as const;
    expect(submittedWords(runningJobForTests({ reservation }), nowForTests)).toContain(
      'reserved: 6.0 GiB on gpu:0 (simulated) (stated).',
    );
    const why = 'It needs 80.0 GiB (estimated). It runs with batch 8 x 4 instead.';
    const degraded = { batch: 8, accumulation: 4, why, whyDetails: null };
    for (const job of [jobForTests({ degraded }), runningJobForTests({ degraded })]) {
      expect(submittedWords(job, nowForTests)).toContain(`. ${why} `);
    }
    const refused = jobForTests({ state: 'refused', reason: 'It never fits.', waiting: null });
    expect(submittedWords(refused, nowForTests)).toBe(
      'job 12 (train.py) was refused: It never fits.',
    );
    expect(jobEndWords(ended)).toBe(
      'job 3 (train.py) failed (ran 3 s, out of memory 1 x, peak 6.0 GiB measured, 6.0 GiB reserved): Its program ended with exit code 7.',
    );
  });

  it('tell no figure of a job of which nothing is known', () => {
    const need = {
      ...jobForTests().need,
      basis: 'unknown',
      why: 'No estimate yet: it gets a whole device.',
    } as const;
    const waiting = jobForTests({ need });
    expect(submittedWords(waiting, nowForTests)).toMatch(
      /waits for a whole device\. It is number 2/,
    );
    expect(jobsTable([waiting], options)[1]).toMatch(
      /^12 {2}train\.py {2}waiting {2}a whole device /,
    );
    const lines = jobText(waiting, options).split('\n');
    expect(lines).toContain('need       No estimate yet: it gets a whole device.');
    const reservation = { devices: ['host'], bytes: 21 * GiB, basis: 'unknown' } as const;
    const running = runningJobForTests({ need, reservation });
    expect(submittedWords(running, nowForTests)).toContain(
      'reserved: 21.0 GiB on host (all of it: no estimate yet)',
    );
  });

  it('say in the list that a job was degraded', () => {
    const degraded = { batch: 8, accumulation: 4, why: 'It needs more.', whyDetails: null };
    expect(jobsTable([jobForTests({ degraded })], options)[1]).toContain(
      'Degraded to batch 8 x 4. It needs 6.0 GiB',
    );
  });

  it('count jobs', () => {
    expect(countsWords({ waiting: 0 }, [])).toMatch(/^There is no job yet/);
    expect(countsWords({ running: 1, succeeded: 1200 }, [1])).toBe(
      '1 running, 1,200 succeeded. 1 job is shown; --all shows all.',
    );
  });
});
