import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { wholeCluster } from '../job-failures.js';
import { homeOfAttempt } from '../node/run-attempt.js';
import type { SlurmJobFolder } from './job-folder.js';
import { endForTests, jobInFolder } from './job-for-tests.js';
import { runOnNode } from './on-node.js';
import { commentOf } from './submit-attempt.js';

/** In the place of `plimsoll`: notes its words, and writes the report that PLIMSOLL_TEST_REPORT holds. */
const reporting = `
  const { appendFileSync, writeFileSync } = require('node:fs');
  const words = process.argv.slice(2);
  appendFileSync(process.env.PLIMSOLL_TEST_WORDS, words.slice(0, 2).join(' ') + '\\n');
  writeFileSync(words[words.indexOf('--report') + 1], process.env.PLIMSOLL_TEST_REPORT);
`;

let home: string;
let folder: SlurmJobFolder;
let environment: Record<string, string>;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-on-slurm-'));
  const program = join(home, 'reporting.cjs');
  writeFileSync(program, reporting);
  const order = { plimsoll: [process.execPath, program] };
  ({ folder } = jobInFolder(home, new Date().toISOString(), { order }));
  environment = {
    TMPDIR: join(home, 'tmp'),
    SLURM_JOB_ID: '17',
    SLURMD_NODENAME: 'n1',
    PLIMSOLL_TEST_WORDS: join(home, 'words'),
    PLIMSOLL_TEST_REPORT: report('succeeded', 0),
  };
  mkdirSync(join(home, 'tmp'));
});
afterEach(() => rmSync(home, { recursive: true }));

function report(outcome: string, exitCode: number): string {
  return JSON.stringify({ schema: 1, outcome, exitCode, endedAt: '', attempts: [] });
}

/** Slurm's record of job 17. */
const row = (comment: string) => ({ job_id: 17, job_state: 'RUNNING', comment });

function startOf(start: string, jobs: readonly object[] = []): Promise<number> {
  return runOnNode({
    folder,
    number: 1,
    start,
    environment,
    run: async () => JSON.stringify({ jobs }),
    cluster: async () => ({
      ...wholeCluster,
      nodes: [],
      offers: [],
      defaultPartitions: [],
      notes: [],
    }),
    gpusHere: async () => 0,
    learn: () => 'unknown',
    notify: () => {},
  });
}

/** How the program was started, each time. */
function started(): readonly string[] {
  const words = join(home, 'words');
  return existsSync(words) ? readFileSync(words, 'utf8').trim().split('\n') : [];
}

describe('runOnNode', () => {
  it('starts from the beginning where Slurm reuses the number of a start that was killed on this node', async () => {
    // What a start leaves that is killed with all of its processes.
    const killed = { folder, clusterId: '17-a', restart: 0, environment };
    mkdirSync(join(homeOfAttempt(killed), 'runs', 'r1'), { recursive: true });
    expect(await startOf('17-b')).toBe(0);
    expect(started()).toEqual(['run --report']);
    expect(folder.end('all', 1)).toMatchObject({ outcome: 'succeeded' });
  });

  it('runs nothing where the attempt has ended, and ends the same way', async () => {
    folder.writeEnd('all', 1, { ...endForTests, outcome: 'failed', exitCode: 9, of });
    expect(await startOf('17-b')).toBe(9);
    expect(started()).toEqual([]);
    expect(existsSync(folder.endedFile('17-b.0'))).toBe(true);
  });

  it('runs nothing where the job was cancelled', async () => {
    folder.markCancelled();
    expect(await startOf('17-b')).toBe(143);
    expect(started()).toEqual([]);
  });

  it('takes the result of a start that was killed before it could write the end', async () => {
    folder.takeTurn('all', 1, { number: 1, start: '17-a.0' });
    writeFileSync(folder.reportOf('17-a.0'), report('succeeded', 0));
    expect(await startOf('17-b')).toBe(0);
    expect(started()).toEqual([]);
    expect(folder.end('all', 1)).toMatchObject({ outcome: 'succeeded' });
  });

  it('does not take a program for failed that was killed because Slurm lost the job', async () => {
    environment['PLIMSOLL_TEST_REPORT'] = report('failed', 137);
    expect(await startOf('17-a', [row('plimsoll:another:all.1')])).toBe(137);
    expect(folder.end('all', 1)).toBeUndefined();
    expect(await startOf('17-b', [row(commentOf(folder.key, 'all', 1))])).toBe(137);
    expect(folder.end('all', 1)).toMatchObject({ outcome: 'failed', exitCode: 137 });
  });
});

const of = { slurmId: '17', restart: 0 };
