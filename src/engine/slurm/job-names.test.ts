import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { claimName, keyOfName } from './slurm-engine.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-names-'));
});
afterEach(() => rmSync(home, { recursive: true }));

it('gives each job a name of its own where Slurm gives a number again', () => {
  expect(claimName(home, '17', 'a')).toBe('17');
  expect(claimName(home, '17', 'b')).toBe('17-2');
  expect(claimName(home, '17', 'c')).toBe('17-3');
  expect(['17', '17-2', '17-3', '18'].map((name) => keyOfName(home, name))).toEqual([
    'a',
    'b',
    'c',
    undefined,
  ]);
});

it('reads no other files', () => {
  claimName(home, '17', 'a');
  expect(keyOfName(home, '../names/17')).toBeUndefined();
});
