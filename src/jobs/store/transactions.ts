import { Failure } from '../../failure.js';
import { keepReserve, useReserve } from './reserve.js';
import { BadRow, type Row } from './rows.js';
import { migrations } from './schema.js';
import type { Connection } from './sqlite.js';
import { failureOf, isOfStore, storeFailure } from './store-failures.js';

type Value = string | number | null;

/** Questions to the store's file, and changes of it that happen whole or not at all. */
export class Transactions {
  readonly #path: string;
  readonly #connection: Connection;
  readonly #prepared = new Map<string, ReturnType<Connection['database']['prepare']>>();
  #trouble: Failure | undefined;

  constructor(path: string, connection: Connection) {
    this.#path = path;
    this.#connection = connection;
  }

  /** Why nothing can be kept at the moment; undefined where it can, as far as anybody tried. */
  get trouble(): Failure | undefined {
    return this.#trouble;
  }

  /** Tries to write, without a change: trouble that is over is known to be over. */
  probe(): void {
    this.change(() => this.#connection.database.exec(`PRAGMA user_version = ${migrations.length}`));
  }

  close(): void {
    this.#prepared.clear();
    this.#connection.close();
  }

  /** All of it, or nothing. */
  change<T>(work: () => T): T {
    return this.guard(() => {
      const { database } = this.#connection;
      database.exec('BEGIN IMMEDIATE');
      try {
        const result = work();
        database.exec('COMMIT');
        this.#trouble = undefined;
        return result;
      } catch (error) {
        // A full disk may have rolled it back already.
        if (database.isTransaction) database.exec('ROLLBACK');
        throw error;
      }
    });
  }

  /** A change that must be possible on a full disk, too: it may use what is kept free for it. */
  changeAlways<T>(work: () => T): T {
    try {
      return this.change(work);
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'disk-full')) throw error;
      this.guard(() => useReserve(this.#connection.database));
      const result = this.change(work);
      // Nothing else can be written.
      this.#trouble = error;
      return result;
    }
  }

  /** Fills up what is kept free for such changes. */
  keepReserve(): void {
    this.guard(() => keepReserve(this.#connection.database));
  }

  guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      const failure =
        error instanceof BadRow
          ? storeFailure('broken-store', this.#path, error)
          : failureOf(error, this.#path);
      if (failure instanceof Failure && isOfStore(failure)) this.#trouble = failure;
      throw failure;
    }
  }

  #statement(sql: string): ReturnType<Connection['database']['prepare']> {
    const known = this.#prepared.get(sql) ?? this.#connection.database.prepare(sql);
    this.#prepared.set(sql, known);
    return known;
  }

  all(sql: string, ...values: readonly Value[]): readonly Row[] {
    return this.#statement(sql).all(...values);
  }

  get(sql: string, ...values: readonly Value[]): Row | undefined {
    return this.#statement(sql).get(...values);
  }

  one(sql: string, ...values: readonly Value[]): Row {
    const row = this.get(sql, ...values);
    if (row === undefined) throw new BadRow('no row');
    return row;
  }

  run(sql: string, ...values: readonly Value[]): void {
    this.#statement(sql).run(...values);
  }
}
