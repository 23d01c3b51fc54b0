import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { attemptForTests } from './attempt-for-tests.js';
import { type JobStore, openJobStore } from './job-store.js';
import type { JobFilter, NewJob } from './records.js';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-jobs-'));
  path = join(folder, 'home/jobs.db');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function newJob(parts: Partial<NewJob> = {}): NewJob {
  return {
    name: 'train',
    owner: 'ada',
    command: ['python', 'train.py'],
    priority: 0,
    need: { bytes: 1000, basis: 'stated', gpus: 1 },
    workloadKey: 'k',
    details: { cwd: '/tmp', env: { A: 'b' } },
    ...parts,
  };
}
const reservation = { devices: ['gpu:0'], bytes: 1000, basis: 'stated' } as const;
const start = { reservation, runId: 'run-1', atMs: 2000 };

describe('the store of jobs', () => {
  it('keeps a job through its life, across restarts', async () => {
    let store = await openJobStore(path);
    const { job } = store.submit(newJob(), 1000);
    expect(job).toEqual({
      id: '1',
      name: 'train',
      owner: 'ada',
      state: 'waiting',
      reason: null,
      command: ['python', 'train.py'],
      priority: 0,
      submittedAt: '1970-01-01T00:00:01.000Z',
      reservation: null,
      attempts: [],
    });
    store.close();
    store = await openJobStore(path);
    store.start('1', start);
    store.addAttempt('1', attemptForTests(), 3000);
    store.close();
    store = await openJobStore(path);
    expect(store.job('1')).toMatchObject({
      job: { state: 'running', reservation, attempts: [{ number: 1 }] },
      details: { env: { A: 'b' } },
      runId: 'run-1',
    });
    store.end('1', 'succeeded', null, 4000);
    store.close();
    store = await openJobStore(path);
    expect(store.job('1')?.job).toMatchObject({ state: 'succeeded', reservation });
    expect(store.events(0).map(({ id, type, data }) => [id, type, data['state']])).toEqual([
      [1, 'submitted', 'waiting'],
      [2, 'started', 'running'],
      [3, 'attempt', undefined],
      [4, 'ended', 'succeeded'],
    ]);
    expect(store.events(2).map(({ id }) => id)).toEqual([3, 4]);
    expect(store.runsOf('k')).toEqual([{ peakBytes: 1000, askedBytes: 'none', seconds: 90 }]);
    store.close();
  });

  it('never lets a job go back, or run twice', async () => {
    const store = await openJobStore(path);
    store.submit(newJob(), 1000);
    const refused = expect.objectContaining({ code: 'bad-change' });
    expect(() => store.addAttempt('1', attemptForTests(), 1)).toThrow(refused);
    expect(() => store.end('1', 'succeeded', null, 1)).toThrow(refused);
    store.start('1', start);
    expect(() => store.start('1', start)).toThrow(refused);
    store.end('1', 'cancelled', { code: 'cancelled', during: 'running' }, 3);
    expect(() => store.start('1', start)).toThrow('Job 1 is cancelled');
    expect(() => store.end('1', 'failed', null, 4)).toThrow(refused);
    // What was refused left no trace.
    expect(store.eventRange()).toEqual({ first: 1, last: 3 });
    expect(() => store.end('77', 'failed', null, 4)).toThrow('There is no job "77".');
    expect(store.job("1' OR 1")).toBeUndefined();
    store.close();
  });

  it('answers the job that is there when a submission comes again', async () => {
    const store = await openJobStore(path);
    const first = store.submit(newJob({ submission: 'abc' }), 1000);
    expect(store.submit(newJob({ submission: 'abc' }), 2000)).toEqual(first);
    expect(store.submit(newJob(), 2000).job.id).toBe('2');
    store.start('1', start);
    const attempt = attemptForTests({ number: 1 });
    expect(store.addAttempt('1', attempt, 1)).toEqual(store.addAttempt('1', attempt, 2));
    expect(store.runsOf('k')).toHaveLength(1);
    store.close();
  });

  it('gives the queue in its order, with how long such jobs ran', async () => {
    const store = await openJobStore(path);
    store.submit(newJob({ workloadKey: 'ran' }), 1000);
    store.start('1', start);
    store.addAttempt('1', attemptForTests(), 1);
    store.submit(newJob({ workloadKey: 'ran', deadlineMs: 9000 }), 2000);
    store.submit(newJob({ priority: 1 }), 3000);
    expect(store.waiting()).toEqual([
      {
        id: '3',
        owner: 'ada',
        turn: -597_000,
        priority: 1,
        bytes: 1000,
        basis: 'stated',
        gpus: 1,
        expectedSeconds: 'unknown',
        deadlineMs: undefined,
        workloadKey: 'k',
        alone: false,
        estimating: false,
      },
      expect.objectContaining({ id: '2', expectedSeconds: 90, deadlineMs: 9000 }),
    ]);
    store.close();
  });

  it('lists page by page, in both directions, with the attempts of each', async () => {
    const store = await openJobStore(path);
    for (let at = 1; at <= 5; at++) store.submit(newJob(), at);
    for (const id of ['2', '4']) {
      store.start(id, { ...start, runId: `run-${id}` });
      store.addAttempt(id, attemptForTests(), 3);
      store.addAttempt(id, attemptForTests({ number: 2 }), 4);
    }
    const ids = (filter: JobFilter) => store.list(filter).map(({ job }) => job.id);
    expect(ids({ limit: 2 })).toEqual(['1', '2']);
    expect(ids({ after: '2' })).toEqual(['3', '4', '5']);
    expect(ids({ newestFirst: true, limit: 3 })).toEqual(['5', '4', '3']);
    expect(ids({ newestFirst: true, after: '3' })).toEqual(['2', '1']);
    expect(ids({ states: ['running'], newestFirst: true })).toEqual(['4', '2']);
    const listed = store.list({ states: ['running', 'waiting'] });
    expect(listed.map(({ job }) => job.attempts.length)).toEqual([0, 2, 0, 2, 0]);
    store.close();
  });

  it('decides once how a running job shall end, and keeps that', async () => {
    let store = await openJobStore(path);
    store.submit(newJob(), 1);
    const cancelled = {
      state: 'cancelled',
      reason: { code: 'cancelled', during: 'running' },
    } as const;
    expect(() => store.endSoon('1', cancelled, 2)).toThrow(
      expect.objectContaining({ code: 'bad-change' }),
    );
    store.start('1', start);
    store.endSoon('1', cancelled, 3);
    store.endSoon('1', { state: 'failed', reason: { code: 'lost', message: 'Late.' } }, 4);
    store.close();
    store = await openJobStore(path);
    expect(store.job('1')).toMatchObject({ job: { state: 'running' }, ending: cancelled });
    expect(store.events(0).map(({ type }) => type)).toEqual(['submitted', 'started', 'note']);
    store.close();
  });

  it('renews the need of those that wait with a workload, and did not state it', async () => {
    const store = await openJobStore(path);
    const guessed = { bytes: 9, basis: 'estimated', gpus: 1 } as const;
    store.submit(newJob({ workloadKey: 'w', need: guessed, alone: true }), 1);
    store.submit(newJob({ workloadKey: 'w' }), 2);
    store.submit(newJob({ workloadKey: 'other', need: guessed, alone: true }), 3);
    const reason = { code: 'estimated', bytes: 5, traced: false } as const;
    const evidence = { reason, estimatedBytes: 5, runs: 0 };
    store.renewNeed('w', { bytes: 5, basis: 'measured', evidence });
    expect(store.job('1')).toMatchObject({
      need: { bytes: 5, basis: 'measured' },
      alone: false,
      details: { cwd: '/tmp', evidence },
    });
    expect(store.waiting().map(({ bytes, alone }) => [bytes, alone])).toEqual([
      [5, false],
      [1000, false],
      [9, true],
    ]);
    store.close();
  });

  it('learns nothing from a run that broke off for another reason', async () => {
    const store = await openJobStore(path);
    store.submit(newJob(), 1);
    store.start('1', start);
    store.addAttempt('1', attemptForTests({ exitCode: 1 }), 2);
    expect(store.runsOf('k')).toEqual([]);
    store.addAttempt('1', attemptForTests({ number: 2, peakFrom: 'sdk' }), 3, 500);
    expect(store.runsOf('k')).toMatchObject([{ peakBytes: 1500 }]);
    store.close();
  });

  it('keeps a job that is refused, and why', async () => {
    const store = await openJobStore(path);
    const refused = { code: 'too-few-gpus', askedGpus: 3, foundGpus: 2 } as const;
    const { job } = store.submit(newJob({ refused }), 1000);
    expect(job).toMatchObject({ state: 'refused', reason: refused });
    expect(store.jobs(['waiting'])).toEqual([]);
    expect(store.counts()).toEqual(new Map([['refused', 1]]));
    store.close();
  });

  it('forgets the oldest of what is over, and never uses an id again', async () => {
    const store = await openJobStore(path);
    for (let at = 1; at <= 4; at++) store.submit(newJob(), at);
    for (const id of ['1', '2', '4']) store.end(id, 'cancelled', null, 9);
    store.prune({ endedJobs: 1, events: 2 });
    expect(store.jobs(['waiting', 'cancelled']).map(({ job }) => job.id)).toEqual(['3', '4']);
    expect(store.eventRange()).toEqual({ first: 6, last: 7 });
    store.end('3', 'cancelled', null, 9);
    store.prune({ endedJobs: 0, events: 0 });
    expect(store.submit(newJob(), 10).job.id).toBe('5');
    expect(store.eventRange()).toEqual({ first: 9, last: 9 });
    store.close();
  });

  it.each([
    [{ command: [] }, 'The command is empty.'],
    [{ command: ['a\0b'] }, 'The command is empty.'],
    [{ command: ['x'.repeat(300_000)] }, 'The command has'],
    [{ name: 'x'.repeat(201) }, 'The name has 201'],
    [{ priority: 1000 }, 'The priority is 1000.'],
    [{ priority: 0.5 }, 'The priority is 0.5.'],
    [{ need: { bytes: -1, basis: 'stated', gpus: 1 } }, 'The job asks for -1 bytes.'],
    [{ need: { bytes: 1, basis: 'stated', gpus: 65 } }, 'The job asks for 65 GPUs.'],
    [{ details: { env: { A: 'x'.repeat(300_000) } } }, 'Workload, environment'],
  ] as const)('refuses what it cannot keep: %#', async (parts, fact) => {
    const store = await openJobStore(path);
    expect(() => store.submit(newJob(parts), 1)).toThrow(fact);
    expect(store.eventRange()).toEqual({ first: 0, last: 0 });
    store.close();
  });

  it('is for its owner alone to read: variables may be secrets', async () => {
    const store = await openJobStore(path);
    store.submit(newJob(), 1);
    for (const name of readdirSync(join(folder, 'home'))) {
      expect(statSync(join(folder, 'home', name)).mode & 0o077).toBe(0);
    }
    store.close();
  });
});

describe('the owner of a store', () => {
  it('is one: not two in a process, not two processes', async () => {
    const store = await openJobStore(path);
    store.submit(newJob(), 1);
    await expect(openJobStore(path)).rejects.toThrow(
      expect.objectContaining({ code: 'store-in-use' }),
    );
    const module = import.meta.resolve('@photostructure/sqlite');
    const other = `const { DatabaseSync } = await import(${JSON.stringify(module)});
      const database = new DatabaseSync(${JSON.stringify(path)}, { timeout: 0 });
      database.exec('BEGIN IMMEDIATE');`;
    const readElsewhere = () =>
      spawnSync(process.execPath, ['--input-type=module', '-e', other], { encoding: 'utf8' });
    expect(readElsewhere().stderr).toContain('database is locked');
    store.submit(newJob(), 2);
    store.close();
    expect(readElsewhere()).toMatchObject({ status: 0, stderr: '' });
    (await openJobStore(path)).close();
  });
});

describe('a file that is no store, or not a whole one', () => {
  beforeEach(() => mkdirSync(join(folder, 'home')));

  async function failureAt(): Promise<Failure | undefined> {
    try {
      (await openJobStore(path)).close();
      return undefined;
    } catch (error) {
      expect(error).toBeInstanceOf(Failure);
      return error instanceof Failure ? error : undefined;
    }
  }

  it('is made where an empty file lies', async () => {
    writeFileSync(path, '');
    const store = await openJobStore(path);
    expect(store.submit(newJob(), 1000).job.id).toBe('1');
    store.close();
  });

  it('is refused in one clear error, and left as it is', async () => {
    const other = new DatabaseSync(join(folder, 'other.db'));
    other.exec('CREATE TABLE photos (name TEXT)');
    other.close();
    const cases = [
      Buffer.from('my notes, not a database'),
      Buffer.alloc(5000, 'x'),
      readFileSync(join(folder, 'other.db')),
    ];
    for (const bytes of cases) {
      writeFileSync(path, bytes);
      expect(await failureAt()).toMatchObject({ code: 'foreign-store', exitCode: 2 });
      expect(readFileSync(path).equals(bytes)).toBe(true);
      expect(readdirSync(join(folder, 'home'))).toEqual(['jobs.db']);
    }
    rmSync(path);
    mkdirSync(path);
    expect(await failureAt()).toMatchObject({ code: 'store-unreachable', exitCode: 3 });
  });

  it('is refused where a newer version wrote it', async () => {
    (await openJobStore(path)).close();
    const database = new DatabaseSync(path);
    database.exec('PRAGMA user_version = 99');
    database.close();
    const before = readFileSync(path);
    expect(await failureAt()).toMatchObject({ code: 'newer-store' });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('answers or fails clearly, wherever it is damaged', async () => {
    const store = await openJobStore(path);
    for (let at = 1; at <= 40; at++) store.submit(newJob({ name: `job ${at}` }), at);
    store.close();
    const whole = readFileSync(path);
    const damage = fc.record({
      at: fc.nat(whole.length - 1),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 64 }),
      cut: fc.option(fc.nat(whole.length), { freq: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(damage, async ({ at, bytes, cut }) => {
        const broken = Buffer.from(whole);
        broken.set(bytes.subarray(0, broken.length - at), at);
        const given = cut === null ? broken : broken.subarray(0, cut);
        writeFileSync(path, given);
        let opened: JobStore;
        try {
          opened = await openJobStore(path);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
          expect(readFileSync(path).equals(given)).toBe(true);
          return;
        }
        try {
          try {
            opened.jobs(['waiting']);
            opened.events(0);
            opened.submit(newJob(), 1);
          } finally {
            opened.close();
          }
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
      { numRuns: 60 },
    );
  });
});
