import { describe, expect, it } from 'vitest';
import type { DaemonEvent } from '../api/types.js';
import { headlineOf, reservedWords } from '../parts/lede.js';
import { provenanceOfJob, usedByJob } from './jobs/open-job.js';
import { backOffSeconds, newsOf } from './live/live.js';
import { madeAttempt, madeDevice, madeJob } from './made-for-tests.js';
import { routeOf } from './page/route.js';

const counts = {
  waiting: 3,
  running: 1,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  refused: 0,
  expired: 0,
};

describe('the way back to a server', () => {
  it('takes longer each time, up to a bound, and never the same for all', () => {
    const waits = [1, 2, 3, 4, 5, 6, 60].map((failures) => backOffSeconds(failures, 0.5));
    expect(waits).toEqual([0.5, 1, 2, 4, 8, 10, 10]);
    expect(backOffSeconds(3, 0)).toBeLessThan(backOffSeconds(3, 1));
  });
});

describe('an address', () => {
  it.each([
    ['', { name: 'overview' }],
    ['#/', { name: 'overview' }],
    ['#/job/12', { name: 'job', id: '12' }],
    ['#/job/', { name: 'lost' }],
    ['#/job/%E0%A4%A', { name: 'job', id: '%E0%A4%A' }],
    ['#/submit', { name: 'submit', like: undefined }],
    ['#/submit/3', { name: 'submit', like: '3' }],
    ['#/elsewhere', { name: 'lost' }],
  ])('%s', (hash, route) => {
    expect(routeOf(hash)).toEqual(route);
  });
});

describe('what is said aloud', () => {
  const event = (id: string, state: 'running' | 'failed' | 'waiting'): DaemonEvent => ({
    type: 'job',
    id: 1,
    job: madeJob({ id, state }),
    what: state,
  });

  it('is one job by its name, many by their number, and nothing that did not change', () => {
    expect(newsOf([event('1', 'failed')], () => 'running')).toBe('job 1 failed.');
    expect(newsOf([event('1', 'running'), event('2', 'running')], () => 'waiting')).toBe(
      '2 jobs started.',
    );
    expect(newsOf([event('1', 'running')], () => 'running')).toBeUndefined();
    expect(newsOf([event('1', 'waiting')], () => undefined)).toBeUndefined();
  });
});

describe('the headline', () => {
  it('is calm where all is well', () => {
    expect(headlineOf([madeDevice({})], counts)).toEqual({
      level: 'fine',
      text: 'gpu:0 is below its load line. 1 job runs, 3 wait.',
      estimated: false,
    });
  });

  it('tells what is about to happen before what is', () => {
    const forecast = { ...madeDevice({}).forecast, risk: 'high', etaSeconds: 45 } as const;
    const deep = madeDevice({ id: 'gpu:1', usedBytes: 95 * 1024 ** 3 });
    expect(headlineOf([deep, madeDevice({ forecast })], counts)).toMatchObject({
      level: 'critical',
      text: 'gpu:0 is expected to be full in 45 s.',
    });
    const host = madeDevice({ id: 'host', usedBytes: 99 * 1024 ** 3 });
    expect(headlineOf([madeDevice({}), host], counts).text).toMatch(/^gpu:0 is below/);
    expect(headlineOf([deep], counts).text).toBe('gpu:1 is 5.0 GiB above its load line.');
  });
});

describe('what is reserved', () => {
  const gib = 1024 ** 3;
  const gpu = (reservedBytes: number) => madeDevice({ reservedBytes });
  const host = (reservedBytes: number) => madeDevice({ id: 'host', reservedBytes });

  it('is that of the GPUs, and that of the host where jobs asked for it', () => {
    expect(reservedWords([gpu(6 * gib), host(0)])).toBe('6.0 GiB');
    expect(reservedWords([gpu(0), host(18.4 * gib)])).toBe('18.4 GiB on the host');
    expect(reservedWords([gpu(6 * gib), gpu(gib), host(gib)])).toBe(
      '7.0 GiB, and 1.0 GiB on the host',
    );
    expect(reservedWords([host(2 * gib)])).toBe('2.0 GiB');
  });
});

describe('what a job uses', () => {
  it('is the sum over its devices, and unknown where it is not known', () => {
    const reservation = { name: 'a', bytes: 9, isReleasing: false };
    const devices = [
      madeDevice({ reservations: [{ ...reservation, jobId: '1', usedBytes: 4 }] }),
      madeDevice({ reservations: [{ ...reservation, jobId: '1', usedBytes: 3 }] }),
      madeDevice({ reservations: [{ ...reservation, jobId: '2', usedBytes: 'unknown' }] }),
    ];
    expect([usedByJob(devices, '1'), usedByJob(devices, '2')]).toEqual([7, 'unknown']);
  });

  it('says where it comes from', () => {
    const reservation = { devices: ['gpu:0'], bytes: 1, basis: 'stated' } as const;
    const devices = [madeDevice({})];
    expect(provenanceOfJob(devices, madeJob({ id: '1', reservation }))).toBe('simulated');
    const attempts = [madeAttempt({ source: 'measured' })];
    expect(provenanceOfJob(devices, madeJob({ id: '1', attempts }))).toBe('measured');
    expect(provenanceOfJob([], madeJob({ id: '1', reservation }))).toBe('unknown');
  });
});
