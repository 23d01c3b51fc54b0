import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readOwnDocument } from './own-file.js';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-own-'));
  path = join(folder, 'file.json');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const read = (where = path) => readOwnDocument(where, { schema: 2, maxBytes: 100 });

describe('readOwnDocument', () => {
  it('reads an object of this schema or an older one', () => {
    for (const document of [{ a: 1 }, { schema: 1, a: 1 }, { schema: 2, a: 1 }]) {
      writeFileSync(path, JSON.stringify(document));
      expect(read()).toEqual(document);
    }
  });

  it('finds none in anything else, and waits for nothing', () => {
    for (const text of ['', 'null', '[]', '3', '{', JSON.stringify({ a: 'x'.repeat(100) })]) {
      writeFileSync(path, text);
      expect([text, read()]).toEqual([text, undefined]);
    }
    expect(read(join(folder, 'none'))).toBeUndefined();
    expect(read(folder)).toBeUndefined();
    expect(spawnSync('mkfifo', [join(folder, 'pipe')]).status).toBe(0);
    expect(read(join(folder, 'pipe'))).toBeUndefined();
  });

  it('refuses a newer schema, and one that is no number', () => {
    for (const schema of [3, '1', null]) {
      writeFileSync(path, JSON.stringify({ schema }));
      expect(() => read()).toThrow(expect.objectContaining({ code: 'newer-file', exitCode: 2 }));
    }
  });
});
