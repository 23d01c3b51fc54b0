import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { ProcessOwners } from './process-owners.js';

function procTree() {
  const procRoot = mkdtempSync(join(tmpdir(), 'plimsoll-owners-'));
  onTestFinished(() => rmSync(procRoot, { recursive: true, force: true }));
  return {
    procRoot,
    /** Also in the place of an older process of the same pid. */
    begin(pid: number, started: number, jobId: string) {
      const folder = join(procRoot, String(pid));
      mkdirSync(folder, { recursive: true });
      const others = Array.from({ length: 18 }, () => '0').join(' ');
      writeFileSync(join(folder, 'stat'), `${pid} (python) S ${others} ${started}\n`);
      writeFileSync(join(folder, 'environ'), `SLURM_JOB_ID=${jobId}\0`);
    },
    end: (pid: number) => rmSync(join(procRoot, String(pid)), { recursive: true }),
  };
}

it('knows whose a process is, and finds another of the same pid when it left or some lists later', () => {
  const tree = procTree();
  const owners = new ProcessOwners({ procRoot: tree.procRoot, userName: () => 'ada' });
  const jobs = (...pids: readonly number[]) =>
    [...owners.read(new Set(pids))].map(([pid, { job }]) => [pid, job?.id]);
  tree.begin(7, 100, '1');
  tree.begin(8, 100, '2');
  expect(jobs(7, 8, 9)).toEqual([
    [7, '1'],
    [8, '2'],
  ]);
  // It left the list, and its pid came back as another process.
  expect(jobs(8)).toEqual([[8, '2']]);
  tree.begin(7, 200, '3');
  expect(jobs(7, 8)).toEqual([
    [7, '3'],
    [8, '2'],
  ]);
  // Between two lists, which no list can show: it is found out all the same.
  tree.begin(7, 300, '4');
  tree.end(8);
  jobs(7, 8);
  expect(jobs(7, 8)).toEqual([[7, '4']]);
});
