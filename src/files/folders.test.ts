import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { needsLinux } from '../../test/support/needs.js';
import { homeFolder, makeFolder } from './folders.js';

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

  it('returns where the kernel makes no folders', needsLinux, () => {
    expect(() => makeFolder('/proc/plimsoll/home')).toThrow(/ENOENT/);
  });

  it('makes the same folders from several processes at once', async () => {
    const built = join(folder, 'folders.mjs');
    const entry = fileURLToPath(new URL('folders.ts', import.meta.url));
    const form = { bundle: true, platform: 'node', format: 'esm' } as const;
    await build({ entryPoints: [entry], outfile: built, ...form });
    const shared = join(folder, 'shared');
    const script = `import { makeFolder } from ${JSON.stringify(built)};
      for (let i = 0; i < 1000; i++) makeFolder(\`${shared}/\${i}/a/b/c\`, 0o700);`;
    const words = ['--input-type=module', '--eval', script];
    const making = () => promisify(execFile)(process.execPath, words);
    await Promise.all([making(), making(), making()]);
    expect(readdirSync(shared)).toHaveLength(1000);
  });
});

describe('homeFolder', () => {
  it('is what the variable names, or a folder in the home of the user', () => {
    expect(homeFolder({ PLIMSOLL_HOME: '/srv/state' }, '/u')).toBe('/srv/state');
    expect(homeFolder({ PLIMSOLL_HOME: 'state' }, '/u')).toBe(resolve('state'));
    expect(homeFolder({}, '/u')).toBe('/u/.plimsoll');
  });

  it('takes an empty variable for none', () => {
    expect(homeFolder({ PLIMSOLL_HOME: '' }, '/u')).toBe('/u/.plimsoll');
  });
});
