import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { madeAnswers } from '../../fleet/made-fleet-for-tests.js';
import type { Prometheus } from '../../fleet/prometheus.js';
import { createVirtualClock, systemClock } from '../../time/clock.js';
import { fleetSource, localAccess, removeStaleTemporaries, snapshotPages } from './open-service.js';

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

describe('local access', () => {
  it('is in the home for the owner, or where it was asked for, or where root has it for all', async () => {
    const of = async (options: object, uid: number) => {
      const access = await localAccess({ home: '/srv/plimsoll', ...options }, systemClock, uid);
      return [access?.path, access?.forAll, access?.isOptional];
    };
    expect(await of({}, 1000)).toEqual(['/srv/plimsoll/server.sock', false, true]);
    expect(await of({ socket: '/srv/a.sock' }, 1000)).toEqual(['/srv/a.sock', false, false]);
    expect(await of({ localUsers: true }, 0)).toEqual(['/run/plimsoll/server.sock', true, false]);
    expect(await of({ localUsers: true, socket: '/srv/a.sock' }, 1000)).toEqual([
      '/srv/a.sock',
      true,
      false,
    ]);
  });

  it('needs a path where the server is not root: others cannot reach its home', async () => {
    await expect(localAccess({ home: '/h', localUsers: true }, systemClock, 1000)).rejects.toThrow(
      '--local-users needs --socket',
    );
  });
});

describe('fleet source', () => {
  it('asks once for many who look, again after a while, and at once after a failure', async () => {
    const clock = createVirtualClock();
    const { devices } = madeAnswers(3, 2);
    let asked = 0;
    let fails = false;
    const prometheus: Prometheus = {
      url: 'http://127.0.0.1:9090',
      points(expression) {
        if (expression.includes('last_over_time(plimsoll_node_info')) asked += 1;
        return fails ? Promise.reject(new Error('gone')) : Promise.resolve(devices);
      },
      lines: () => Promise.resolve([]),
    };
    const source = fleetSource(prometheus, clock, new AbortController().signal);
    const [one, other] = await Promise.all([source(), source()]);
    expect(one).toBe(other);
    expect(one?.nodes).toHaveLength(3);
    expect(asked).toBe(1);
    await clock.advance(11);
    fails = true;
    await expect(source()).rejects.toThrow('gone');
    fails = false;
    expect((await source()).totals.nodes).toBe(3);
    expect(asked).toBe(3);
  });
});

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
