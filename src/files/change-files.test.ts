import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert, property, string } from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { changeFiles, undoLastChange } from './change-files.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-change-'));
  writeFileSync(join(folder, 'a.txt'), 'one');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const changes = () => join(folder, 'changes');
const change = (sha256?: string) =>
  changeFiles(
    changes(),
    [
      { path: join(folder, 'a.txt'), after: 'two', sha256 },
      { path: join(folder, 'new.txt'), after: 'new' },
    ],
    new Date(0),
  );

describe('changeFiles', () => {
  it('writes files, and puts back what was there, or was not', () => {
    change();
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('two');
    const { restored, changedSince } = undoLastChange(changes());
    expect(restored).toHaveLength(2);
    expect(changedSince).toEqual([]);
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one');
    expect(existsSync(join(folder, 'new.txt'))).toBe(false);
    expect(() => undoLastChange(changes())).toThrow('nothing to put back');
  });

  it('writes nothing where a file is not as it was read', () => {
    expect(() => change('0'.repeat(64))).toThrow('changed while it was read');
    expect(readdirSync(folder)).toEqual(['a.txt']);
  });

  it('writes nothing through a symbolic link, and puts nothing back through one', () => {
    const target = join(folder, 'target.txt');
    writeFileSync(target, 'one');
    rmSync(join(folder, 'a.txt'));
    symlinkSync(target, join(folder, 'a.txt'));
    expect(() => change()).toThrow('is a symbolic link; nothing was written');
    rmSync(join(folder, 'a.txt'));
    // One that points to nothing yet.
    symlinkSync(join(folder, 'nothing.txt'), join(folder, 'new.txt'));
    writeFileSync(join(folder, 'a.txt'), 'one');
    expect(() => change()).toThrow('new.txt is a symbolic link');
    rmSync(join(folder, 'new.txt'));
    change();
    writeFileSync(target, 'two');
    rmSync(join(folder, 'a.txt'));
    symlinkSync(target, join(folder, 'a.txt'));
    expect(undoLastChange(changes()).changedSince).toEqual([join(folder, 'a.txt')]);
    expect(readFileSync(target, 'utf8')).toBe('two');
  });

  it('refuses a damaged record with one failure, and changes nothing', () => {
    const own = change();
    assert(
      property(string(), (text) => {
        writeFileSync(join(own, 'change.json'), text);
        expect(() => undoLastChange(changes())).toThrow(Failure);
        expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('two');
      }),
    );
  });
});
