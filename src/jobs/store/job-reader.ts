import { Failure } from '../../failure.js';
import { isAttempt } from '../../run/store/journal-entry.js';
import type { Attempt } from '../../run/types.js';
import type { MeasuredRun } from '../corrections.js';
import { type JobState, jobStates, type WaitingJob } from '../types.js';
import {
  type ClockMark,
  type JobEvent,
  type JobFilter,
  type StoredJob,
  unknownJob,
} from './records.js';
import {
  BadRow,
  checked,
  integer,
  isClockMark,
  type Row,
  storedEvent,
  storedJob,
  storedRun,
  waitingJob,
} from './rows.js';
import { migrations } from './schema.js';
import { type Connection, keepReserve, useReserve } from './sqlite.js';
import { failureOf, isOfStore, storeFailure } from './store-failures.js';

/** Runs of a workload that are looked at: enough for the margin to shrink to its least. */
const runsLookedAt = 50;
/** Rows that one answer holds at most, so that no answer fills the memory. */
const maxRows = 100_000;

/** SQL for the least that an elastic job may start with; NULL for all others, damaged ones among them. */
const leastBytes = `CASE WHEN details LIKE '%"foundBytes"%' AND instr(details, char(0)) = 0
  AND json_valid(details) THEN json_extract(details, '$.elastic.foundBytes') END`;

/** What can be asked of the store of jobs. */
export class JobReader {
  protected readonly sql: Transactions;

  constructor(sql: Transactions) {
    this.sql = sql;
  }

  job(id: string): StoredJob | undefined {
    return this.sql.guard(() => {
      const row = /^\d{1,15}$/.test(id)
        ? this.sql.get('SELECT * FROM job WHERE sequence = ?', id)
        : undefined;
      return row && this.whole(row);
    });
  }

  /** The job that was submitted under a name before. */
  submitted(submission: string): StoredJob | undefined {
    return this.sql.guard(() => {
      const row = this.sql.get('SELECT * FROM job WHERE submission = ?', submission);
      return row && this.whole(row);
    });
  }

  /** Jobs in one of these states, the oldest first; `afterId` pages on. */
  jobs(states: readonly JobState[], afterId = '0', most = maxRows): readonly StoredJob[] {
    return this.list({ states, after: afterId, limit: most });
  }

  /** Jobs page by page, in the order in which they came or against it. */
  list({
    states = jobStates,
    after,
    newestFirst,
    limit = maxRows,
  }: JobFilter): readonly StoredJob[] {
    return this.sql.guard(() => {
      const most = Math.max(0, Math.min(limit, maxRows));
      const from =
        after === undefined ? (newestFirst ? Number.MAX_SAFE_INTEGER : 0) : Number(after);
      const sql = newestFirst
        ? 'SELECT * FROM job WHERE state = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?'
        : 'SELECT * FROM job WHERE state = ? AND sequence > ? ORDER BY sequence LIMIT ?';
      const rows = [...new Set(states)]
        .flatMap((state) => this.sql.all(sql, state, from, most))
        .toSorted((a, b) => integer(a, 'sequence') - integer(b, 'sequence'));
      const page = newestFirst ? rows.toReversed().slice(0, most) : rows.slice(0, most);
      const attempts = this.#attemptsOf(page);
      return page.map((row) => storedJob(row, attempts.get(integer(row, 'sequence')) ?? []));
    });
  }

  /** The whole queue in its order, as light as it can be: 100,000 of them in a moment. */
  waiting(): readonly WaitingJob[] {
    return this.sql.guard(() => {
      const longest = new Map(
        this.sql
          .all(
            "SELECT workload_key, max(seconds) AS seconds FROM run WHERE asked = 'none' GROUP BY 1",
          )
          .map((row) => [row['workload_key'], row['seconds']]),
      );
      return this.sql
        .all(
          `SELECT sequence, owner, turn, priority, bytes, basis, gpus, deadline_ms, workload_key, alone,
           estimating, ${leastBytes} AS least_bytes FROM job
         WHERE state = 'waiting' ORDER BY turn, sequence`,
        )
        .flatMap((row) => ifWhole(() => waitingJob(row, longest.get(row['workload_key']))));
    });
  }

  /** Those that wait for their estimates, in the order of their turns. */
  estimating(): readonly StoredJob[] {
    return this.sql.guard(() =>
      this.sql
        .all("SELECT * FROM job WHERE state = 'waiting' AND estimating = 1 ORDER BY turn, sequence")
        .map((row) => storedJob(row, [])),
    );
  }

  /** How many jobs are in each state. */
  counts(): ReadonlyMap<string, number> {
    return this.sql.guard(
      () =>
        new Map(
          this.sql
            .all('SELECT state, count(*) AS n FROM job GROUP BY state')
            .map((row) => [String(row['state']), integer(row, 'n')]),
        ),
    );
  }

  /** What happened after an event, the oldest first. */
  events(afterId: number, most = 1000): readonly JobEvent[] {
    return this.sql.guard(() =>
      this.sql
        .all(
          'SELECT * FROM event WHERE id > ? ORDER BY id LIMIT ?',
          afterId,
          Math.min(most, maxRows),
        )
        .flatMap((row) => ifWhole(() => storedEvent(row))),
    );
  }

  /** The first and the last event that are kept; 0 where there is none. */
  eventRange(): { readonly first: number; readonly last: number } {
    return this.sql.guard(() => {
      // Both in one question would be looked for in the whole table; each alone is found at once.
      const row = this.sql.one(
        `SELECT ifnull((SELECT min(id) FROM event), 0) AS first,
           ifnull((SELECT max(id) FROM event), 0) AS last`,
      );
      return { first: integer(row, 'first'), last: integer(row, 'last') };
    });
  }

  /** What earlier runs of a workload measured, the latest first. */
  runsOf(workloadKey: string): readonly MeasuredRun[] {
    return this.sql.guard(() =>
      this.sql
        .all(
          'SELECT * FROM run WHERE workload_key = ? ORDER BY sequence DESC LIMIT ?',
          workloadKey,
          runsLookedAt,
        )
        .flatMap((row) => ifWhole(() => storedRun(row))),
    );
  }

  /** Where the time of the queue stood; undefined where none was kept. */
  clockMark(): ClockMark | undefined {
    return this.sql.guard(() => {
      const row = this.sql.get('SELECT mark FROM clock');
      return row && ifWhole(() => checked(row, 'mark', isClockMark))[0];
    });
  }

  /** The oldest of those that ended, beyond so many, with the runs whose files lie somewhere. */
  endedBeyond(
    kept: number,
  ): readonly { readonly id: string; readonly runId: string | undefined }[] {
    return this.sql.guard(() =>
      this.sql
        .all(
          `SELECT sequence, run_id FROM job WHERE ended_ms IS NOT NULL ORDER BY sequence DESC
         LIMIT ? OFFSET ?`,
          maxRows,
          kept,
        )
        .map((row) => {
          const runId = row['run_id'];
          return {
            id: String(integer(row, 'sequence')),
            runId: typeof runId === 'string' ? runId : undefined,
          };
        }),
    );
  }

  protected row(id: string): Row {
    const row = /^\d{1,15}$/.test(id) && this.sql.get('SELECT * FROM job WHERE sequence = ?', id);
    if (!row) throw unknownJob(id);
    return row;
  }

  protected whole(row: Row): StoredJob {
    const sequence = integer(row, 'sequence');
    return storedJob(row, this.#attemptsOf([row]).get(sequence) ?? []);
  }

  /** Of many jobs with one question. One that never ran has none and is not asked for. */
  #attemptsOf(rows: readonly Row[]): ReadonlyMap<number, readonly Attempt[]> {
    const ids = rows
      .filter((row) => row['started_ms'] !== null)
      .map((row) => integer(row, 'sequence'));
    const found = new Map<number, readonly Attempt[]>();
    if (ids.length === 0) return found;
    for (const row of this.sql.all(
      `SELECT job, data FROM attempt WHERE job IN (SELECT value FROM json_each(?))
       ORDER BY job, number`,
      JSON.stringify(ids),
    )) {
      const job = integer(row, 'job');
      const attempts = ifWhole(() => checked(row, 'data', isAttempt));
      found.set(job, [...(found.get(job) ?? []), ...attempts]);
    }
    return found;
  }
}

/** What a row holds; nothing where it is damaged: that must not hide the others. */
function ifWhole<T>(read: () => T): readonly T[] {
  try {
    return [read()];
  } catch (error) {
    if (error instanceof BadRow) return [];
    throw error;
  }
}

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
