import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { copyFolder } from './program-estimate.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll copy '));
  mkdirSync(join(folder, 'from', 'package'), { recursive: true });
  writeFileSync(join(folder, 'from', 'package', 'train.py'), 'print(1)\n');
  symlinkSync('package', join(folder, 'from', 'link'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

describe('copyFolder', () => {
  it('copies files, folders and links; the copy is its own', async () => {
    const to = join(folder, 'to');
    await copyFolder(join(folder, 'from'), to);
    expect(readlinkSync(join(to, 'link'))).toBe('package');
    writeFileSync(join(to, 'package', 'train.py'), 'changed');
    expect(readFileSync(join(folder, 'from', 'package', 'train.py'), 'utf8')).toBe('print(1)\n');
  });

  it.each([
    { bytes: 5, files: 100 },
    { bytes: 1000, files: 2 },
  ])('refuses a folder above a limit before it copies anything: %o', async (limits) => {
    const to = join(folder, 'to');
    const copied = copyFolder(join(folder, 'from'), to, limits);
    await expect(copied).rejects.toMatchObject({ code: 'folder-too-large' });
    expect(existsSync(to)).toBe(false);
  });
});
