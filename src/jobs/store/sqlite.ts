import {
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { DatabaseSyncInstance, SqliteModule } from '@photostructure/sqlite';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/folders.js';
import { codeOf } from '../../files/system-errors.js';
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
    makeFolder(dirname(file), 0o700);
  } catch (error) {
    throw failureOf(error, path);
  }
  const { DatabaseSync } = await loadSqlite();
  const real = realPath(file);
  if (openHere.has(real)) throw storeFailure('store-in-use', path);
  openHere.add(real);
  try {
    for (const end of ['', '-wal', '-journal']) checkPlainFile(`${file}${end}`, path);
    const header = judgeHeader(readHeader(file));
    if (header.kind === 'foreign') throw storeFailure('foreign-store', path);
    const version = header.kind === 'ours' ? header.version : schemaVersion;
    if (version > schemaVersion) throw storeFailure('newer-store', path);
    if (version < 1) throw storeFailure('broken-store', path);
    if (header.kind === 'fresh') create(file, (at) => new DatabaseSync(at));
    // Its owner keeps the lock: waiting would not help.
    const database = new DatabaseSync(file, { timeout: 0 });
    try {
      takeOver(database, version, path);
    } catch (error) {
      letGo(database);
      throw error;
    }
    return {
      database,
      close() {
        giveUp(database);
        openHere.delete(real);
      },
    };
  } catch (error) {
    openHere.delete(real);
    throw failureOf(error, path);
  }
}

export async function loadSqlite(): Promise<Pick<SqliteModule, 'DatabaseSync'>> {
  try {
    return await import('@photostructure/sqlite');
  } catch (error) {
    throw new Failure({
      kind: 'missing',
      code: 'no-sqlite',
      fact: `SQLite could not be loaded: ${error instanceof Error ? error.message : String(error)}`,
      next: 'Install plimsoll again with npm. There are binaries for Linux, macOS and Windows on x64 and arm64.',
      cause: error,
    });
  }
}

/** Made under another name and moved: half a store is never found. */
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
    putInPlace(fresh, file);
  } finally {
    rmSync(fresh, { force: true });
  }
}

/** Two that start at once must not replace each other's store: the first one's stays, and is opened. */
function putInPlace(fresh: string, file: string): void {
  // An empty file is there where somebody made one by hand.
  if (existsSync(file) && statSync(file).size === 0) rmSync(file);
  try {
    linkSync(fresh, file);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return;
    // File systems without hard links.
    renameSync(fresh, file);
  }
}

function takeOver(database: DatabaseSyncInstance, version: number, path: string): void {
  // In exclusive mode a lock once taken is kept; this takes it.
  database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT');
  // Before anything is written: a damaged file must stay as it is, so that it can be repaired.
  const [found] = database.prepare('PRAGMA quick_check(1)').all();
  if (found?.['quick_check'] !== 'ok') throw storeFailure('broken-store', path);
  if (version < schemaVersion) {
    // Not in the write-ahead log, so that the header always tells the version.
    database.exec('PRAGMA journal_mode = DELETE');
    migrate(database, version);
  }
  database.exec('PRAGMA journal_mode = WAL');
  // A change that was acknowledged is on the disk, also when the power fails.
  database.exec('PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON');
  try {
    keepReserve(database);
  } catch {
    // On a full disk there is none: the store can still be read.
  }
}

/** Leaves one whole file, and no lock. */
function giveUp(database: DatabaseSyncInstance): void {
  try {
    database.exec('PRAGMA journal_mode = DELETE');
  } catch {
    // On a full disk the log stays beside the file; the next owner reads both.
  }
  letGo(database);
}

/**
 * Closing alone would keep the lock as long as the engine has not collected the statements that were
 * prepared.
 */
function letGo(database: DatabaseSyncInstance): void {
  try {
    // The lock goes with the next access.
    database.exec('PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema');
  } catch {
    // A damaged file, or one that another process has: there is no lock of ours on it.
  } finally {
    database.close();
  }
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

/** A named pipe of that name would be waited for without end. */
function checkPlainFile(file: string, path: string): void {
  const stats = statSync(file, { throwIfNoEntry: false });
  if (stats === undefined || stats.isFile() || stats.isDirectory()) return;
  throw storeFailure('foreign-store', path);
}

function readHeader(file: string): Uint8Array {
  const buffer = Buffer.alloc(headerBytes);
  let handle: number;
  try {
    handle = openSync(file, 'r');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return buffer.subarray(0, 0);
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

/** The verdict from a file's first bytes, before anything is opened that could change it. */
type HeaderVerdict =
  | { readonly kind: 'fresh' | 'foreign' }
  | { readonly kind: 'ours'; readonly version: number };

/** The header of an SQLite file. */
const headerBytes = 100;
const magic = 'SQLite format 3\0';
const versionOffset = 60;
const applicationIdOffset = 68;

function judgeHeader(header: Uint8Array): HeaderVerdict {
  if (header.length === 0) return { kind: 'fresh' };
  const bytes = Buffer.from(header.buffer, header.byteOffset, header.byteLength);
  const ours =
    bytes.length === headerBytes &&
    bytes.toString('latin1', 0, magic.length) === magic &&
    bytes.readUInt32BE(applicationIdOffset) === applicationId;
  return ours ? { kind: 'ours', version: bytes.readUInt32BE(versionOffset) } : { kind: 'foreign' };
}

/** Pages that are free inside the file: an end of a job changes some five, and reuses most of them. */
const leastPages = 64;
const fills = 4;
/** Of each: small, so that the log stays short and new jobs cannot use up all that is free. */
const fillBytes = 128 * 1024;

/**
 * Keeps room inside the store for the ends of jobs: a job that fills the disk must be one that can be
 * cancelled. Free pages in the file and in its log are on the disk already, so writing them needs no
 * more. Called when the store is opened, and now and then.
 */
export function keepReserve(database: DatabaseSyncInstance): void {
  const [found] = database.prepare('PRAGMA freelist_count').all();
  if (Number(found?.['freelist_count']) >= leastPages) return;
  try {
    for (let fill = 0; fill < fills; fill++) {
      database.exec(
        `BEGIN; CREATE TABLE reserve_${fill} (room BLOB);
         INSERT INTO reserve_${fill} VALUES (zeroblob(${fillBytes})); COMMIT`,
      );
      useReserve(database);
    }
  } catch {
    // The disk is full already: what is there is used, and it is filled up later.
    if (database.isTransaction) database.exec('ROLLBACK');
  } finally {
    for (let fill = 0; fill < fills; fill++) database.exec(`DROP TABLE IF EXISTS reserve_${fill}`);
    useReserve(database);
  }
}

/** Moves what is in the log into the file, so that the log is written from its beginning again. */
export function useReserve(database: DatabaseSyncInstance): void {
  database.prepare('PRAGMA wal_checkpoint(RESTART)').all();
}
