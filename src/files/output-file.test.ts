import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openOutputFile, writeAll } from './output-file.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-output-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('openOutputFile', () => {
  it('leaves nothing behind until it is written, and only the file then', () => {
    const file = openOutputFile('report.json', folder);
    expect(readdirSync(folder)).toEqual([]);
    file.write('{}');
    expect(readdirSync(folder)).toEqual(['report.json']);
    expect(readFileSync(join(folder, 'report.json'), 'utf8')).toBe('{}');
  });

  it('keeps the permissions of a file that it replaces, and a link a link', () => {
    const target = join(folder, 'real.json');
    writeFileSync(target, 'old');
    chmodSync(target, 0o640);
    symlinkSync('real.json', join(folder, 'link.json'));
    openOutputFile('link.json', folder).write('new');
    expect(readlinkSync(join(folder, 'link.json'))).toBe('real.json');
    expect(readFileSync(target, 'utf8')).toBe('new');
    expect(statSync(target).mode & 0o777).toBe(0o640);
  });

  it('says at once that the folder is missing', () => {
    expect(() => openOutputFile('no/such/report.json', folder)).toThrow(
      expect.objectContaining({
        code: 'cannot-write',
        fact: 'no/such/report.json cannot be written: its folder does not exist.',
        exitCode: 2,
      }),
    );
  });

  it('says at once that the target is a folder, or lies below a file', () => {
    mkdirSync(join(folder, 'sub'));
    writeFileSync(join(folder, 'plain'), '');
    expect(() => openOutputFile('sub', folder)).toThrow(/it is a folder/);
    expect(() => openOutputFile('plain/x', folder)).toThrow(/not a folder/);
  });

  it('writes to a device as it is, and reports a full one', () => {
    const file = openOutputFile('/dev/full', folder);
    expect(() => file.write('{}')).toThrow(
      expect.objectContaining({ code: 'disk-full', exitCode: 3 }),
    );
    expect(statSync('/dev/full').isCharacterDevice()).toBe(true);
  });

  it('keeps the old file and no temporary one when the new one cannot be put in place', () => {
    const file = openOutputFile('report.json', folder);
    // A folder of that name appears between the check and the writing.
    mkdirSync(join(folder, 'report.json'));
    expect(() => file.write('{}')).toThrow(expect.objectContaining({ code: 'cannot-write' }));
    expect(readdirSync(folder)).toEqual(['report.json']);
  });
});

describe('writeAll', () => {
  it('writes the others when one fails, and then throws', () => {
    const bad = openOutputFile('/dev/full', folder);
    const good = openOutputFile('good.html', folder);
    expect(() =>
      writeAll([
        [bad, 'x'],
        [good, 'y'],
      ]),
    ).toThrow(/disk is full/);
    expect(readFileSync(join(folder, 'good.html'), 'utf8')).toBe('y');
  });
});
