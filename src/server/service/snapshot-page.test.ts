import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { snapshotPages } from './snapshot-page.js';

/** In place of the command: writes what it was asked for, or fails on a file that says so. */
const program = `
const { readFileSync, writeFileSync } = require('node:fs');
const [, , page, , file] = process.argv.slice(2);
const text = readFileSync(file, 'utf8');
if (text === 'odd') process.exit(2);
writeFileSync(page, '<p>' + text + '</p>');
process.exit(1);
`;

describe('pages of snapshots', () => {
  let folder = '';
  let script = '';
  let temporary = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-pages-'));
    script = join(folder, 'command.cjs');
    writeFileSync(script, program);
    // Of this test alone: others make such folders at the same time.
    temporary = join(folder, 'temporary');
    mkdirSync(temporary);
    vi.stubEnv('TMPDIR', temporary);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  const { signal } = new AbortController();

  it('are made in another process, whatever its exit code, and leave nothing behind', async () => {
    const make = snapshotPages([process.execPath, script], { PATH: process.env['PATH'] });
    const file = join(folder, 'a.pickle');
    writeFileSync(file, 'held');
    const page = new TextDecoder().decode(await make(file, signal));
    expect(page).toBe('<p>held</p>');
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('are refused where the file is gone, where it cannot be read, and beyond two at once', async () => {
    const make = snapshotPages([process.execPath, script], { PATH: process.env['PATH'] });
    const file = join(folder, 'odd.pickle');
    await expect(make(file, signal)).rejects.toMatchObject({ code: 'snapshot-gone' });
    writeFileSync(file, 'odd');
    await expect(make(file, signal)).rejects.toMatchObject({ code: 'unreadable-snapshot' });
    const good = join(folder, 'good.pickle');
    copyFileSync(script, good);
    const three = await Promise.allSettled([1, 2, 3].map(() => make(good, signal)));
    expect(three.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(three[2]).toMatchObject({ reason: { code: 'too-many-answers' } });
  });
});
