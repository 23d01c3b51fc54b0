import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readServerNote, writeServerNote } from './server-file.js';

function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-home-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  return home;
}

describe('writeServerNote', () => {
  it('leaves no temporary file where it cannot be put in place', () => {
    const home = newHome();
    mkdirSync(join(home, 'server.json'));
    expect(() => writeServerNote(home, { url: 'http://127.0.0.1:1', pid: 1 })).toThrow(/EISDIR/);
    expect(readdirSync(home)).toEqual(['server.json']);
  });

  it('replaces what is there', () => {
    const home = newHome();
    writeFileSync(join(home, 'server.json'), 'null');
    expect(readServerNote(home)).toBeUndefined();
    writeServerNote(home, { url: 'http://127.0.0.1:1', pid: 1 });
    expect(readServerNote(home)).toEqual({ url: 'http://127.0.0.1:1', pid: 1 });
  });
});
