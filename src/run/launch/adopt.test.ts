import { spawn } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../time/clock.js';
import { RunFolder } from '../store/run-folder.js';
import { adoptJob, findLaunched, restoreLaunchFiles } from './adopt.js';
import { drainerScript } from './keeper-scripts.js';
import type { RawOutput } from './outputs.js';

it('a job that was taken up has its last words read, however late its drainer writes them', async () => {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-adopt-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const folder = new RunFolder(home, '20260101-000000000-0000');
  mkdirSync(folder.path, { recursive: true });
  const files = folder.attemptFiles(1);
  // The job has ended; the drainer of a supervisor that was killed gets no time before it takes over.
  const slowly = `sleep 1; ${drainerScript}`;
  const words = ['-c', slowly, 'plimsoll-drainer', files.lateOutput('stderr')];
  const nothing = openSync('/dev/null', 'w');
  const drainer = spawn('/bin/sh', words, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe', nothing],
  });
  closeSync(nothing);
  const [line, printed] = [drainer.stdio[3], drainer.stdio[4]];
  if (line && 'end' in line) line.end();
  if (printed && 'end' in printed) printed.end('MemoryError\n');
  writeFileSync(files.exitCode, '001\n');
  const nowhere = (fd: number): RawOutput => ({
    fd,
    isTerminal: false,
    size: () => undefined,
    write: () => Promise.resolve(),
  });
  let seen = '';
  const job = adoptJob({
    files,
    procRoot: '/proc',
    clock: systemClock,
    isOurs: () => true,
    reap: () => undefined,
    outputs: { stdout: nowhere(1), stderr: nowhere(2) },
    onOutput: (bytes) => {
      seen += Buffer.from(bytes).toString();
    },
    hold: undefined,
  });
  expect(await job.ended).toBe(1);
  await job.drained(600_000);
  expect(seen).toBe('MemoryError\n');
});

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'plimsoll-proc-'));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

const files = new RunFolder('/home', 'r').attemptFiles(1);
const variables = ['PLIMSOLL_RUN_ID=r', 'PLIMSOLL_ATTEMPT=1'];
const found = () => findLaunched(root, files, variables);

/** A process as /proc shows it: words of its command, and its environment. */
function add(pid: number, parent: number, words: readonly string[], environment: string[] = []) {
  const zeros = Array.from({ length: 17 }, () => '0').join(' ');
  const folder = join(root, String(pid));
  const listed = (texts: readonly string[]) => texts.map((text) => `${text}\0`).join('');
  mkdirSync(folder);
  writeFileSync(join(folder, 'stat'), `${pid} (x) S ${parent} ${zeros} ${pid} 0`);
  writeFileSync(join(folder, 'cmdline'), listed(words));
  writeFileSync(join(folder, 'environ'), listed(environment));
}

const keeper = (file: string) => ['sh', '-c', 'x', 'plimsoll-keeper', '/code', file, 'y'];

describe('findLaunched', () => {
  it('tells a keeper by the file in its arguments, and the job is its child', () => {
    add(7, 1, keeper(files.keeperPid));
    add(8, 7, ['python'], variables);
    add(9, 8, ['python'], variables);
    expect(found()).toEqual({ keeper: 7, job: 8 });
  });

  it('tells a job without a keeper by its variables, the oldest of its processes', () => {
    add(9, 8, ['python'], variables);
    add(8, 1, ['python'], variables);
    expect(found()).toEqual({ keeper: undefined, job: 8 });
  });

  it('takes no other attempt, and no other run, for it', () => {
    add(7, 1, keeper(new RunFolder('/home', 'r').attemptFiles(2).keeperPid));
    add(8, 7, ['python'], ['PLIMSOLL_RUN_ID=r', 'PLIMSOLL_ATTEMPT=2']);
    add(9, 1, ['python'], ['PLIMSOLL_RUN_ID=rr', 'PLIMSOLL_ATTEMPT=1']);
    add(10, 1, ['cat', files.keeperPid]);
    expect(found()).toBeUndefined();
  });
});

describe('restoreLaunchFiles', () => {
  it('writes the pids, whatever has the names of the files', () => {
    const own = new RunFolder(root, 'r').attemptFiles(1);
    mkdirSync(own.keeperPid, { recursive: true });
    restoreLaunchFiles(own, { keeper: 7, job: 8 });
    expect(readFileSync(own.keeperPid, 'utf8')).toBe('7\n');
    expect(readFileSync(own.jobPid, 'utf8')).toBe('8\n');
  });
});
