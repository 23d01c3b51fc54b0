import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { needsLinux } from '../../../test/support/needs.js';
import { takeRun } from '../../run/store/supervisor-lock.js';
import { clearPackFolders, keptLists, packFolder } from './pack.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-pack-'));
});
afterEach(() => rmSync(home, { recursive: true }));

/** A list of so many seconds after the first. */
function makeList(host: string, list: number): string {
  const path = packFolder(home, host, String(list));
  mkdirSync(join(path, 'runs', 'one'), { recursive: true });
  return path;
}

function datedAt(path: string, seconds: number): void {
  utimesSync(path, seconds, seconds);
}

describe('the folders of packed lists', needsLinux, () => {
  it('are kept for the last lists of a host, and for those that go on', () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(Date, 9e8)']);
    try {
      const paths = Array.from({ length: keptLists + 4 }, (_, list) => makeList('node1', list));
      makeList('node2', 1);
      makeList('node1-b', 1);
      writeFileSync(join(home, 'pack', 'node1-99'), 'no folder');
      takeRun(join(paths[0] ?? ''), '/proc', child.pid);
      takeRun(join(paths[1] ?? '', 'runs', 'one'), '/proc', child.pid);
      paths.forEach((path, at) => datedAt(path, 1_000_000 + at));
      clearPackFolders(home, 'node1', '/proc');
      const gone = ['node1-2', 'node1-3'];
      const left = readdirSync(join(home, 'pack'));
      expect(left).not.toContain(gone[0]);
      expect(left).not.toContain(gone[1]);
      // 20 lists, two that go on, those of other hosts, and the file.
      expect(left).toHaveLength(keptLists + 2 + 3);
      expect(left).toEqual(expect.arrayContaining(['node1-0', 'node1-1', 'node2-1', 'node1-b-1']));
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('need not be there', () => {
    expect(() => clearPackFolders(home, 'node1', '/proc')).not.toThrow();
  });
});
