import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder } from './make-folder.js';

describe('makeFolder', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-make-'));
  });
  afterEach(() => {
    chmodSync(folder, 0o700);
    rmSync(folder, { recursive: true });
  });

  it('makes what is missing, each with the mode, and takes what is there', () => {
    const path = join(folder, 'a', 'b', 'c');
    makeFolder(path, 0o700);
    makeFolder(path, 0o700);
    for (const one of ['a', 'a/b', 'a/b/c']) {
      expect(statSync(join(folder, one)).mode & 0o777).toBe(0o700);
    }
  });

  it('refuses a file in the way, at the end and above it', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(() => makeFolder(file)).toThrow(/EEXIST/);
    expect(() => makeFolder(join(file, 'below'))).toThrow(/ENOTDIR/);
  });

  it.runIf(process.platform === 'linux')('returns where the kernel makes no folders', () => {
    expect(() => makeFolder('/proc/plimsoll/home')).toThrow(/ENOENT/);
  });
});
