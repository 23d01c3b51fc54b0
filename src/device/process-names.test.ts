import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { ProcessNames, parseNamespacePids, processName, visiblePids } from './process-names.js';

describe('processName', () => {
  it('is the program of the command line, else the short name, else unknown', async () => {
    await using tree = await makeFakeTree({
      'proc/1/cmdline': '/usr/bin/python3.12\0-m\0train\0',
      'proc/2/cmdline': '',
      'proc/2/comm': 'kworker/0:1\n',
      'proc/3/comm': '\n',
      'proc/5/cmdline': `\u001b[2Jboo\u0007${'x'.repeat(200)}\0`,
    });
    const { proc } = tree.roots;
    expect([1, 2, 3, 4, 5].map((pid) => processName(proc, pid))).toEqual([
      'python3.12',
      'kworker/0:1',
      'unknown',
      'unknown',
      `?[2Jboo?${'x'.repeat(56)}`,
    ]);
  });
});

describe('parseNamespacePids', () => {
  it('reads all ids, outermost first, and nothing from an old kernel', () => {
    expect(parseNamespacePids('Pid:\t7\nNSpid:\t4321\t77\t7\nNSpgid:\t1\n')).toEqual([4321, 77, 7]);
    expect(parseNamespacePids('Pid:\t7\n')).toEqual([]);
    expect(parseNamespacePids('NSpid:\tmany\n')).toEqual([]);
  });
});

describe('names that are asked for again and again', () => {
  it('are read once in a while: a process may have become another program', async () => {
    await using tree = await makeFakeTree({ 'proc/7/cmdline': 'sh\0' });
    let now = 0;
    const names = new ProcessNames(tree.roots.proc, () => now);
    expect(names.nameOf(7)).toBe('sh');
    writeFileSync(join(tree.roots.proc, '7/cmdline'), 'python\0train.py\0');
    now = 59;
    expect(names.nameOf(7)).toBe('sh');
    now = 60;
    expect(names.nameOf(7)).toBe('python');
    expect(names.nameOf(8)).toBe('unknown');
  });
});

describe('visiblePids', () => {
  it('keeps ids that are here, maps those of an outer namespace, leaves the rest', async () => {
    await using tree = await makeFakeTree({
      'proc/5/status': 'NSpid:\t5\n',
      'proc/6/status': 'NSpid:\t1000\t6\n',
      'proc/7/status': 'NSpid:\t2000\t7\n',
      'proc/8/status': 'NSpid:\t2000\t8\n',
    });
    const pids = visiblePids(tree.roots.proc, [5, 1000, 2000, 3000]);
    // Two processes claim 2000, so it stays unmapped.
    expect([...pids]).toEqual([
      [5, 5],
      [1000, 6],
    ]);
  });
});
