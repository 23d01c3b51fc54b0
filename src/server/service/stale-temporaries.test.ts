import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { removeStaleTemporaries } from './stale-temporaries.js';

describe('removeStaleTemporaries', () => {
  it('removes what dead servers left half-written, and nothing else', () => {
    const home = mkdtempSync(join(tmpdir(), 'plimsoll-home-'));
    onTestFinished(() => rmSync(home, { recursive: true, force: true }));
    const stays = ['jobs.db', 'jobs.db-wal', 'notes.7.tmp', 'server.json', 'token', 'token.8.tmp'];
    const stale = ['jobs.db.new-7', 'jobs.db.new-7-journal', 'server.json.7.tmp', 'token.7.tmp'];
    for (const name of [...stays, ...stale]) writeFileSync(join(home, name), '');
    removeStaleTemporaries(home, (pid) => pid === 8);
    expect(readdirSync(home).toSorted()).toEqual(stays);
  });
});
