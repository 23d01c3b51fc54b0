import { createHash, randomBytes } from 'node:crypto';
import { closeSync, lstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DatabaseSyncInstance, SqliteModule } from '@photostructure/sqlite';
import { Failure } from '../../../failure.js';
import { loadSqlite } from '../../../jobs/store/sqlite.js';
import { failureOf } from '../../../jobs/store/store-failures.js';
import { ownerName } from '../../../jobs/types.js';
import { type Role, roles } from '../permissions.js';

/** Another writer is done within milliseconds; a machine that swaps takes longer. */
const busyMs = 5000;
/** More people than any such server has; a list of them is read whole. */
const maxUsers = 10_000;

const schema = `
  CREATE TABLE IF NOT EXISTS user (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    token_id TEXT NOT NULL UNIQUE,
    token_hash TEXT NOT NULL,
    max_memory_bytes INTEGER,
    max_jobs INTEGER,
    account TEXT,
    added_at TEXT NOT NULL
  ) STRICT;
`;

type Value = string | number | null;
type Row = Readonly<Record<string, unknown>>;

export function usersFile(home: string): string {
  return join(home, 'users.db');
}

/**
 * The users of a home, in an SQLite file beside the store of jobs. Every question goes to the file, so
 * a change by another process counts from the next request on. A change is whole or not at all,
 * whenever its process is killed, and two at once wait for each other.
 *
 * @example
 * const users = await openUserStore('/var/lib/plimsoll');
 * users.list().map(({ name, role }) => `${name}: ${role}`);
 */
export async function openUserStore(home: string): Promise<UserStore> {
  return new UserStore(usersFile(home), await loadSqlite());
}

export class UserStore {
  readonly #path: string;
  readonly #sqlite: Pick<SqliteModule, 'DatabaseSync'>;
  #open: { readonly database: DatabaseSyncInstance; readonly inode: number } | undefined;

  constructor(path: string, sqlite: Pick<SqliteModule, 'DatabaseSync'>) {
    this.#path = path;
    this.#sqlite = sqlite;
  }

  /** The user whose token this is. */
  byToken(token: string): User | undefined {
    const id = tokenId(token);
    const user = id === undefined ? undefined : this.byTokenId(id);
    return user?.tokenHash === hashOfToken(token) ? user : undefined;
  }

  byTokenId(id: string): User | undefined {
    return this.#one('token_id', id);
  }

  byName(name: string): User | undefined {
    return this.#one('name', name);
  }

  /** The first by name, where several have the same account. */
  byAccount(account: string): User | undefined {
    return this.#one('account', account);
  }

  list(): readonly User[] {
    return this.#ask(
      (database) =>
        database.prepare('SELECT * FROM user ORDER BY name LIMIT ?').all(maxUsers).map(userOf),
      [],
    );
  }

  add(user: User): void {
    this.#change((database) => {
      if (found(database, 'name', user.name) !== undefined) throw userExists(user.name);
      database
        .prepare('INSERT INTO user VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
        .run(...valuesOf(user), user.addedAt);
    });
  }

  change(name: string, change: UserChange): User {
    return this.#change((database) => {
      const changed = withChange(this.#requireUser(database, name), change);
      database
        .prepare(
          `UPDATE user SET name = ?, role = ?, token_id = ?, token_hash = ?, max_memory_bytes = ?,
             max_jobs = ?, account = ? WHERE name = ?`,
        )
        .run(...valuesOf(changed), name);
      return changed;
    });
  }

  remove(name: string): User {
    return this.#change((database) => {
      const user = this.#requireUser(database, name);
      database.prepare('DELETE FROM user WHERE name = ?').run(name);
      return user;
    });
  }

  close(): void {
    this.#open?.database.close();
    this.#open = undefined;
  }

  #requireUser(database: DatabaseSyncInstance, name: string): User {
    const user = found(database, 'name', name);
    if (user !== undefined) return user;
    const rows = database.prepare('SELECT * FROM user ORDER BY name LIMIT 20').all();
    throw unknownUser(
      name,
      rows.map((row) => userOf(row).name),
    );
  }

  #one(column: 'name' | 'token_id' | 'account', value: string): User | undefined {
    return this.#ask((database) => found(database, column, value), undefined);
  }

  /** Without a file there are no users, and none is made to find that out. */
  #ask<T>(work: (database: DatabaseSyncInstance) => T, none: T): T {
    return this.#guard(() => {
      const database = this.#connected();
      return database === undefined ? none : work(database);
    });
  }

  #change<T>(work: (database: DatabaseSyncInstance) => T): T {
    return this.#guard(() => {
      this.#make();
      const database = this.#connected();
      if (database === undefined) throw oddFile(this.#path, 'it was removed');
      database.exec('BEGIN IMMEDIATE');
      try {
        const result = work(database);
        database.exec('COMMIT');
        return result;
      } catch (error) {
        if (database.isTransaction) database.exec('ROLLBACK');
        throw error;
      }
    });
  }

  #make(): void {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    try {
      closeSync(openSync(this.#path, 'wx', 0o600));
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    }
  }

  /** A file that was put in the place of the one that is open is opened anew. */
  #connected(): DatabaseSyncInstance | undefined {
    const stats = lstatSync(this.#path, { throwIfNoEntry: false });
    if (stats === undefined) {
      this.close();
      return undefined;
    }
    if (this.#open?.inode === stats.ino) return this.#open.database;
    this.close();
    if (!stats.isFile()) throw oddFile(this.#path, 'it is not a regular file');
    if (process.platform !== 'win32' && (stats.mode & 0o077) !== 0) throw readable(this.#path);
    const database = new this.#sqlite.DatabaseSync(this.#path, { timeout: busyMs });
    try {
      database.exec('PRAGMA synchronous = FULL');
      database.exec(schema);
    } catch (error) {
      database.close();
      throw error;
    }
    this.#open = { database, inode: stats.ino };
    return database;
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw failureOf(error, this.#path);
    }
  }
}

function found(database: DatabaseSyncInstance, column: string, value: string): User | undefined {
  const row = database
    .prepare(`SELECT * FROM user WHERE ${column} = ? ORDER BY name LIMIT 1`)
    .get(value);
  return row && userOf(row);
}

function valuesOf(user: User): readonly Value[] {
  const { name, role, tokenId: id, tokenHash, maxMemoryBytes, maxJobs, account } = user;
  return [name, role, id, tokenHash, maxMemoryBytes ?? null, maxJobs ?? null, account ?? null];
}

function kept<T>(before: T | undefined, next: T | null | undefined): T | undefined {
  return next === undefined ? before : (next ?? undefined);
}

function withChange(user: User, change: UserChange): User {
  const { role = user.role, token } = change;
  return {
    ...user,
    role,
    tokenId: token?.id ?? user.tokenId,
    tokenHash: token?.hash ?? user.tokenHash,
    maxMemoryBytes: kept(user.maxMemoryBytes, change.maxMemoryBytes),
    maxJobs: kept(user.maxJobs, change.maxJobs),
    account: kept(user.account, change.account),
  };
}

/** An unknown role has the fewest rights. */
function userOf(row: Row): User {
  const text = (column: string): string => String(row[column]);
  const number = (column: string): number | undefined =>
    typeof row[column] === 'number' ? row[column] : undefined;
  const role: Role = roles.find((one) => one === row['role']) ?? 'viewer';
  return {
    name: text('name'),
    role,
    tokenId: text('token_id'),
    tokenHash: text('token_hash'),
    maxMemoryBytes: number('max_memory_bytes'),
    maxJobs: number('max_jobs'),
    account: row['account'] === null ? undefined : text('account'),
    addedAt: text('added_at'),
  };
}

function oddFile(path: string, why: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-users-file',
    fact: `The users cannot be read from ${path}: ${why}.`,
    next: 'Move the file away and add the users again.',
  });
}

function readable(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'users-file-readable',
    fact: `Other users of this machine can read or change ${path}.`,
    next: `Check who is in it with "plimsoll users list" after: chmod 600 ${path}`,
  });
}

/** Somebody with a token of his own. */
export interface User {
  readonly name: string;
  readonly role: Role;
  readonly tokenId: string;
  readonly tokenHash: string;
  readonly maxMemoryBytes: number | undefined;
  readonly maxJobs: number | undefined;
  /** The Unix account that his jobs run as, on a server that runs as root. */
  readonly account: string | undefined;
  readonly addedAt: string;
}

/** Changes of a user; absent fields stay, and `null` removes a limit. */
export interface UserChange {
  readonly role?: Role | undefined;
  readonly maxMemoryBytes?: number | null | undefined;
  readonly maxJobs?: number | null | undefined;
  readonly account?: string | null | undefined;
  readonly token?: { readonly id: string; readonly hash: string } | undefined;
}

/** Words that stand for others where a name is shown. */
const takenNames: ReadonlyMap<string, string> = new Map([
  [ownerName, `"${ownerName}" is who has the token of the server itself.`],
  ['unknown', '"unknown" is who has no valid token, in the audit log.'],
]);

export function checkUserName(name: string): void {
  const taken = takenNames.get(name);
  if (/^[a-z0-9][a-z0-9._-]{0,31}$/i.test(name) && taken === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-user-name',
    fact: taken ?? `"${name.slice(0, 60)}" cannot be the name of a user.`,
    next: 'Use 1 to 32 letters, digits, dots, dashes and underscores, such as ada.',
  });
}

function unknownUser(name: string, known: readonly string[]): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-user',
    fact: `There is no user "${name.slice(0, 60)}".`,
    next:
      known.length === 0
        ? 'There are no users yet: plimsoll users add NAME'
        : `There are ${known.slice(0, 20).join(', ')}.`,
  });
}

function userExists(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'user-exists',
    fact: `There is a user ${name} already.`,
    next: `Change it with "plimsoll users change ${name}"; --new-token gives it a new token.`,
  });
}

/**
 * The token of a user: a part that names it, and 256 random bits. Only a hash is kept; a plain one is
 * enough, since 2^256 secrets cannot be tried.
 */
interface UserToken {
  readonly token: string;
  readonly id: string;
  readonly hash: string;
}

export function newUserToken(): UserToken {
  const id = randomBytes(6).toString('hex');
  const token = `pu_${id}_${randomBytes(32).toString('base64url')}`;
  return { token, id, hash: hashOfToken(token) };
}

/** The part that may be told; undefined where it is no token of a user. */
export function tokenId(token: string): string | undefined {
  return /^pu_([\da-f]{12})_[\w-]{43}$/.exec(token)?.[1];
}

export function hashOfToken(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
