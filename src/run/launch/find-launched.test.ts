import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunFolder } from '../store/run-folder.js';
import { findLaunched, restoreLaunchFiles } from './find-launched.js';

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
