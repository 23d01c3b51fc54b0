import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { roomsWith, runningJob, waitingJob } from '../queue-for-tests.js';
import { jobsOnGpu } from './devices/device-readings.js';
import { limitConcurrency } from './limit-concurrency.js';
import { environmentForJobs } from './running/job-files.js';
import { judgeUse, type Overuse } from './running/running-jobs.js';
import { askingNow } from './submission/job-queue.js';
import { JobSeries } from './views/job-series.js';

describe('askingNow', () => {
  const alone = { ...waitingJob('1', 90), alone: true };

  it('leaves alone what knows its need', () => {
    const job = waitingJob('1', 12);
    expect(askingNow(job, roomsWith(1, []))).toBe(job);
  });

  it('asks for all that strangers leave of the roomiest device, and for half at least', () => {
    const asked = (others: readonly (number | 'unknown')[]) =>
      askingNow(alone, roomsWith(others.length, [], others)).bytes;
    expect(asked([0])).toBe(90);
    expect(asked([30, 10])).toBe(80);
    expect(asked([70])).toBe(45);
    expect(asked(['unknown'])).toBe(90);
    // What our own jobs hold counts as free: it will be.
    expect(askingNow(alone, roomsWith(1, [runningJob('2', 50, ['gpu:0'])])).bytes).toBe(90);
    expect(askingNow({ ...alone, gpus: 2 }, roomsWith(2, [], [30, 10])).bytes).toBe(60);
    expect(askingNow({ ...alone, gpus: 2 }, roomsWith(1, [])).bytes).toBe(90);
  });
});

describe('judgeUse', () => {
  const at = (usedBytes: number | 'unknown', nowSeconds: number, over?: Overuse, alone = false) =>
    judgeUse({ usedBytes, promisedBytes: 10 * GiB, alone, nowSeconds, over });

  it('tolerates small excess, short peaks, and use that cannot be read', () => {
    expect(at(10 * GiB + 128 * MiB, 0).verdict).toBe('fine');
    expect(at('unknown', 0, { sinceSeconds: -100 }).verdict).toBe('fine');
    expect(at(12 * GiB, 5, { sinceSeconds: 0 }).verdict).toBe('over');
    expect(at(9 * GiB, 6, { sinceSeconds: 0 }).verdict).toBe('fine');
  });

  it('warns first, then holds to the promise; one that has a device to itself is only told', () => {
    const warned = at(12 * GiB, 100);
    expect(warned).toMatchObject({ verdict: 'warn', over: { sinceSeconds: 100 } });
    expect(at(12 * GiB, 110, { sinceSeconds: 100 }).verdict).toBe('end');
    expect(at(12 * GiB, 999, { sinceSeconds: 100 }, true).verdict).toBe('over');
  });
});

describe('jobsOnGpu', () => {
  const use = {
    knows: (pid: number) => pid < 100,
    runOf: (pid: number) => (pid < 10 ? `run-${pid % 2}` : undefined),
    hostBytes: () => 0,
  };
  const on = (usedBytes: number, ...processes: (readonly [number, number | 'unknown'])[]) =>
    jobsOnGpu({
      usedBytes,
      processes: processes.map(([pid, bytes]) => ({ pid, name: 'x', usedBytes: bytes })),
      use,
      isSimulated: false,
      jobOf: (runId) => ({ 'run-0': 'a', 'run-1': 'b' })[runId],
    });

  it('adds up the processes of each job, and leaves out strangers', () => {
    const held = on(9 * GiB, [1, GiB], [2, 2 * GiB], [3, GiB], [50, 5 * GiB]);
    expect(held).toEqual(
      new Map([
        ['b', 2 * GiB],
        ['a', 2 * GiB],
      ]),
    );
    expect(on(0)).toEqual(new Map());
  });

  it('does not know where it cannot see all', () => {
    // A number of another namespace; a process without a figure; a list that lacks some.
    expect(on(GiB, [4711, GiB])).toBe('unknown');
    expect(on(GiB, [1, 'unknown'])).toBe('unknown');
    expect(on(20 * GiB, [1, GiB])).toBe('unknown');
    const hidden = { usedBytes: 0, processes: 'unknown', use, jobOf: () => 'a' } as const;
    expect(jobsOnGpu({ ...hidden, isSimulated: false })).toBe('unknown');
    // On a simulated device, other use has no owner.
    const made = [{ pid: 4711, name: 'simulated', usedBytes: GiB }];
    expect(jobsOnGpu({ ...hidden, processes: made, isSimulated: true })).toEqual(new Map());
  });
});

describe('JobSeries', () => {
  it('keeps every peak, the order of time, and its size, however long it goes on', () => {
    const bytes = fc.array(fc.option(fc.nat(1e9)), { minLength: 1, maxLength: 5000 });
    fc.assert(
      fc.property(bytes, (values) => {
        const series = new JobSeries();
        values.forEach((value, at) => series.add(at * 1000, value));
        const { epochMs, usedBytes } = series.read();
        expect(epochMs.length).toBe(usedBytes.length);
        expect(epochMs.length).toBeLessThanOrEqual(1000);
        expect(epochMs).toEqual(epochMs.toSorted((a, b) => a - b));
        const most = (all: readonly (number | null)[]) =>
          Math.max(0, ...all.map((one) => one ?? 0));
        expect(most(usedBytes)).toBe(most(values));
      }),
      { numRuns: 30 },
    );
  });

  it('goes on where it was', () => {
    const series = new JobSeries({ epochMs: [1, 2], usedBytes: [5, null] });
    series.add(3, 7);
    expect(series.read()).toEqual({ epochMs: [1, 2, 3], usedBytes: [5, null, 7] });
  });
});

describe('limitConcurrency', () => {
  it('lets so many work at once, and all of them in the end', async () => {
    const limited = limitConcurrency(2);
    let working = 0;
    let most = 0;
    const work = async (fails: boolean) => {
      working++;
      most = Math.max(most, working);
      await new Promise((resolve) => setImmediate(resolve));
      working--;
      if (fails) throw new Error('no');
      return 'done';
    };
    const ends = await Promise.allSettled(
      Array.from({ length: 9 }, (_, n) => limited(() => work(n % 3 === 0))),
    );
    expect(most).toBe(2);
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(6);
    expect(await limited(() => work(false))).toBe('done');
  });
});

describe('environmentForJobs', () => {
  it('keeps what is the business of the daemon from its jobs', () => {
    const own = { PATH: '/bin', PLIMSOLL_TOKEN: 's3cret', PLIMSOLL_RUN_ID: 'x', UNSET: undefined };
    expect(environmentForJobs(own)).toEqual({ PATH: '/bin' });
  });
});
