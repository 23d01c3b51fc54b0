import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { Transactions } from './job-reader.js';
import { type Connection, connect } from './sqlite.js';

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-transactions-'));
let connection: Connection;
let sql: Transactions;

beforeEach(async () => {
  const path = join(folder, 'jobs.db');
  connection = await connect(path);
  sql = new Transactions(path, connection);
});

afterEach(() => {
  sql.close();
  rmSync(folder, { recursive: true, force: true });
});

function fill(rows: number): void {
  sql.change(() => {
    for (let row = 0; row < rows; row++) {
      sql.run(
        "INSERT INTO run (workload_key, peak_bytes, asked, seconds) VALUES (?, 1, 'none', 1)",
        'x'.repeat(1000),
      );
    }
  });
}

function count(): unknown {
  return sql.one('SELECT count(*) AS n FROM run')['n'];
}

describe('changes of the store', () => {
  it('happen whole or not at all', () => {
    const work = () => {
      fill(1);
      throw new Error('no');
    };
    expect(() => sql.change(work)).toThrow('no');
    expect(count()).toBe(0);
  });

  it('are refused by a full disk, which is known until there is room again', () => {
    fill(1);
    expect(sql.trouble).toBeUndefined();
    const { database } = connection;
    const pages = Number(database.prepare('PRAGMA page_count').get()?.['page_count']);
    // SQLite answers as it does on a full disk.
    database.exec(`PRAGMA max_page_count = ${pages + 1}`);
    expect(() => fill(100)).toThrow(expect.objectContaining({ code: 'disk-full' }));
    expect(sql.trouble?.code).toBe('disk-full');
    expect(count()).toBe(1);

    database.exec('PRAGMA max_page_count = 100000');
    sql.probe();
    expect(sql.trouble).toBeUndefined();
    fill(100);
    expect(count()).toBe(101);
  });

  it('that must be possible on a full disk use what is kept free for them', () => {
    const { database } = connection;
    const figure = (pragma: string) =>
      Number(Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
    const isKept = figure('freelist_count') >= 64;
    const changes = () => Object.values(sql.one('SELECT total_changes()'))[0];
    const before = changes();
    sql.keepReserve();
    expect([isKept, changes()]).toEqual([true, before]);
    database.exec(`PRAGMA max_page_count = ${figure('page_count')}`);
    while (sql.trouble === undefined) {
      try {
        fill(10);
      } catch (error) {
        expect(error).toMatchObject({ code: 'disk-full' });
      }
    }
    database.exec('PRAGMA max_page_count = 100000');
    // What other changes used up is filled again.
    expect(figure('freelist_count')).toBeLessThan(64);
    sql.keepReserve();
    expect(figure('freelist_count')).toBeGreaterThanOrEqual(64);
  });

  it('that must be possible are tried again once, and only for a full disk', () => {
    const full = new Failure({ kind: 'missing', code: 'disk-full', fact: '', next: '' });
    for (const [error, tries] of [
      [full, 2],
      [new Error('another'), 1],
    ] as const) {
      let tried = 0;
      const work = () => {
        tried += 1;
        throw error;
      };
      expect(() => sql.changeAlways(work)).toThrow(error);
      expect(tried).toBe(tries);
    }
    let isFull = true;
    const work = () => {
      if (!isFull) return 'kept';
      isFull = false;
      throw full;
    };
    expect(sql.changeAlways(work)).toBe('kept');
    // Other changes still find no room.
    expect(sql.trouble).toBe(full);
  });

  it('that are asked for wrongly are no trouble of the store', () => {
    expect(() =>
      sql.change(() => {
        throw new TypeError('a bug');
      }),
    ).toThrow(TypeError);
    expect(sql.trouble).toBeUndefined();
  });
});
