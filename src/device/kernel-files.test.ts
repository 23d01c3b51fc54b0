import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { listKernelFolder, listPids, readKernelFile, readKernelNumber } from './kernel-files.js';

describe('kernel files', () => {
  it('are read up to the limit, and undefined where they are not', async () => {
    await using tree = await makeFakeTree({ a: 'text\n', long: 'x'.repeat(300_000) });
    expect(readKernelFile(join(tree.folder, 'a'))).toBe('text\n');
    expect(readKernelFile(join(tree.folder, 'long'))).toHaveLength(65_536);
    expect(readKernelFile(join(tree.folder, 'long'), 200_000)).toHaveLength(200_000);
    expect(readKernelFile(join(tree.folder, 'none'))).toBeUndefined();
    expect(readKernelFile(tree.folder)).toBeUndefined();
  });

  it('hold a number or not', async () => {
    await using tree = await makeFakeTree({ a: '42\n', b: 'max\n', c: '-1\n', d: '' });
    const numbers = ['a', 'b', 'c', 'd', 'e'].map((name) =>
      readKernelNumber(join(tree.folder, name)),
    );
    expect(numbers).toEqual([42, undefined, undefined, undefined, undefined]);
  });

  it('are listed in order, and processes by their number', async () => {
    await using tree = await makeFakeTree({
      'proc/b': '',
      'proc/12/x': '',
      'proc/3/x': '',
      'proc/0/x': '',
    });
    expect(listKernelFolder(tree.roots.proc)).toEqual(['0', '12', '3', 'b']);
    expect(listPids(tree.roots.proc)).toEqual([12, 3]);
    expect(listKernelFolder(join(tree.folder, 'none'))).toEqual([]);
  });
});
