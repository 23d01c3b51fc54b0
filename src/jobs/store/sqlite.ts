import {
  closeSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { DatabaseSyncInstance, SqliteModule } from '@photostructure/sqlite';
import { Failure } from '../../failure.js';
import { headerBytes, judgeHeader } from './header.js';
import { applicationId, migrations, schemaVersion } from './schema.js';
import { failureOf, storeFailure } from './store-failures.js';

export interface Connection {
  readonly database: DatabaseSyncInstance;
  close(): void;
}

/**
 * Files that are open in this process. The kernel's locks are between processes, and closing any
 * handle of a file drops those that this process has: it must not be touched a second time.
 */
const openHere = new Set<string>();

/**
 * Opens a store for its one owner. The lock is the kernel's: it is gone when the owner is, however
 * it ended. Nothing is written to a file that is not ours.
 */
export async function connect(path: string): Promise<Connection> {
  const file = resolve(path);
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw failureOf(error, path);
  }
  const { DatabaseSync } = await loadSqlite();
  const real = realPath(file);
  if (openHere.has(real)) throw storeFailure('store-in-use', path);
  openHere.add(real);
  try {
    const verdict = judgeHeader(readHeader(file));
    if (verdict === 'fresh') create(file, (at) => new DatabaseSync(at));
    else if (verdict !== 'ours') throw storeFailure('foreign-store', path);
    // Whoever has the file keeps it: waiting would not help.
    const database = new DatabaseSync(file, { timeout: 0 });
    try {
      prepare(database, path);
    } catch (error) {
      database.close();
      throw error;
    }
    return {
      database,
      close() {
        database.close();
        openHere.delete(real);
      },
    };
  } catch (error) {
    openHere.delete(real);
    throw failureOf(error, path);
  }
}

async function loadSqlite(): Promise<Pick<SqliteModule, 'DatabaseSync'>> {
  try {
    return await import('@photostructure/sqlite');
  } catch (error) {
    throw new Failure({
      kind: 'missing',
      code: 'no-sqlite',
      fact: `SQLite could not be loaded: ${error instanceof Error ? error.message : String(error)}`,
      next: 'There are binaries for Linux, macOS and Windows on x64 and arm64; install plimsoll again with npm.',
      cause: error,
    });
  }
}

/** Made under another name and moved: nobody ever finds half a store. */
function create(file: string, open: (path: string) => DatabaseSyncInstance): void {
  const fresh = `${file}.new-${process.pid}`;
  try {
    // Its environment variables may be secrets.
    closeSync(openSync(fresh, 'w', 0o600));
    const database = open(fresh);
    try {
      database.exec(`PRAGMA application_id = ${applicationId}`);
      migrate(database, 0);
    } finally {
      database.close();
    }
    renameSync(fresh, file);
  } finally {
    rmSync(fresh, { force: true });
  }
}

function prepare(database: DatabaseSyncInstance, path: string): void {
  database.exec('PRAGMA locking_mode = EXCLUSIVE');
  const version = Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
  if (!Number.isInteger(version) || version < 1) throw storeFailure('broken-store', path);
  if (version > schemaVersion) throw storeFailure('newer-store', path);
  database.exec('PRAGMA journal_mode = WAL');
  // A change that was acknowledged is on the disk, also when the power fails.
  database.exec('PRAGMA synchronous = FULL');
  database.exec('PRAGMA foreign_keys = ON');
  // Takes the lock now, and keeps it: in exclusive mode a lock once taken is not given back.
  database.exec('BEGIN IMMEDIATE; COMMIT');
  if (version < schemaVersion) migrate(database, version);
}

function migrate(database: DatabaseSyncInstance, from: number): void {
  database.exec('BEGIN EXCLUSIVE');
  try {
    for (const script of migrations.slice(from)) database.exec(script);
    database.exec(`PRAGMA user_version = ${schemaVersion}`);
    database.exec('COMMIT');
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}

function readHeader(file: string): Uint8Array {
  const buffer = Buffer.alloc(headerBytes);
  let handle: number;
  try {
    handle = openSync(file, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      return buffer.subarray(0, 0);
    throw error;
  }
  try {
    return buffer.subarray(0, readSync(handle, buffer, 0, headerBytes, 0));
  } finally {
    closeSync(handle);
  }
}

function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}
