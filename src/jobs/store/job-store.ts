import type { Attempt } from '../../run/contract.js';
import {
  hasEnded,
  type JobState,
  jobStates,
  mayBecome,
  type Need,
  type WaitingJob,
} from '../contract.js';
import { type MeasuredRun, measuredRun } from '../corrections.js';
import { turnOf } from '../waiting-list.js';
import { badChange, unknownJob } from './changes.js';
import { checkNewJob, reasonCharacters } from './limits.js';
import type {
  Ending,
  JobEvent,
  JobEventType,
  JobFilter,
  JobStart,
  NeedEvidence,
  NewJob,
  StoredJob,
} from './records.js';
import {
  BadRow,
  integer,
  json,
  type Row,
  storedEvent,
  storedJob,
  storedRun,
  waitingJob,
} from './rows.js';
import { type Connection, connect } from './sqlite.js';
import { failureOf, storeFailure } from './store-failures.js';

/** Runs of a workload that are looked at: enough for the margin to shrink to its least. */
const runsLookedAt = 50;
/** Rows that one answer holds at most, so that no answer fills the memory. */
const mostRows = 100_000;

/**
 * All jobs, durably, in one SQLite file with one owner. Every change is one transaction with its
 * event: when a method returns, the change is on the disk; when it throws, nothing of it is.
 */
export class JobStore {
  readonly #path: string;
  readonly #connection: Connection;
  readonly #prepared = new Map<string, ReturnType<Connection['database']['prepare']>>();

  constructor(path: string, connection: Connection) {
    this.#path = path;
    this.#connection = connection;
  }

  /** Keeps a job: `waiting`, or `refused` where it can never run. */
  submit(job: NewJob, nowMs: number): StoredJob {
    checkNewJob(job);
    return this.#change(() => {
      const known =
        job.submission && this.#get('SELECT * FROM job WHERE submission = ?', job.submission);
      if (known) return this.#whole(known);
      const state: JobState = job.refused === undefined ? 'waiting' : 'refused';
      const reason = cut(job.refused ?? job.reason ?? '');
      const row = this.#one(
        `INSERT INTO job (submission, state, reason, name, command, priority, turn, submitted_ms,
           deadline_ms, bytes, basis, gpus, workload_key, details, ended_ms, alone)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
        job.submission ?? null,
        state,
        reason,
        job.name,
        JSON.stringify(job.command),
        job.priority,
        turnOf(nowMs, job.priority),
        nowMs,
        job.deadlineMs ?? null,
        job.need.bytes,
        job.need.basis,
        job.need.gpus,
        job.workloadKey,
        JSON.stringify(job.details),
        state === 'refused' ? nowMs : null,
        job.alone ? 1 : 0,
      );
      this.#journal(integer(row, 'sequence'), 'submitted', { state, reason }, nowMs);
      return storedJob(row, []);
    });
  }

  /** To be called before the program is launched: one that was started is never started again. */
  start(id: string, { reservation, runId, atMs }: JobStart): StoredJob {
    return this.#move(id, 'running', { reason: '', reservation, runId }, atMs, () =>
      this.#one(
        `UPDATE job SET state = 'running', reason = '', reservation = ?, run_id = ?, started_ms = ?
         WHERE sequence = ? RETURNING *`,
        JSON.stringify(reservation),
        runId,
        atMs,
        id,
      ),
    );
  }

  /** The end of a job, whichever it is. */
  end(id: string, state: JobState, reason: string, atMs: number): StoredJob {
    return this.#move(id, state, { reason: cut(reason) }, atMs, () =>
      this.#one(
        'UPDATE job SET state = ?, reason = ?, ended_ms = ? WHERE sequence = ? RETURNING *',
        state,
        cut(reason),
        atMs,
        id,
      ),
    );
  }

  /** One try ended. What it measured is there for the next job of the same workload. */
  addAttempt(
    id: string,
    attempt: Attempt,
    atMs: number,
    /** What a device loses beside what the program itself counts. */
    besideBytes = 0,
  ): StoredJob {
    return this.#change(() => {
      const before = this.#whole(this.#row(id));
      if (before.job.state !== 'running') throw badChange(before.job, 'an attempt');
      // Told again after a crash, it is the same attempt.
      if (before.job.attempts.some(({ number }) => number === attempt.number)) return before;
      const { number } = attempt;
      this.#run('INSERT INTO attempt VALUES (?, ?, ?)', id, number, JSON.stringify(attempt));
      const run = measuredRun(attempt, besideBytes);
      if (run !== undefined) {
        this.#run(
          'INSERT INTO run (workload_key, peak_bytes, asked, seconds) VALUES (?, ?, ?, ?)',
          before.workloadKey,
          run.peakBytes,
          String(run.askedBytes),
          run.seconds,
        );
      }
      this.#journal(id, 'attempt', { number, exitCode: attempt.exitCode }, atMs);
      return this.#whole(this.#row(id));
    });
  }

  /** Decides how a running job shall end, before anybody ends it: it stays decided after a crash. */
  endSoon(id: string, ending: Ending, atMs: number): StoredJob {
    return this.#change(() => {
      const before = this.#whole(this.#row(id));
      if (before.job.state !== 'running') throw badChange(before.job, ending.state);
      // What was decided first is why it ends.
      if (before.ending !== undefined) return before;
      const kept = { state: ending.state, reason: cut(ending.reason) };
      const row = this.#one(
        'UPDATE job SET ending = ? WHERE sequence = ? RETURNING *',
        JSON.stringify(kept),
        id,
      );
      this.#journal(id, 'note', { words: kept.reason, ending: kept.state }, atMs);
      return this.#whole(row);
    });
  }

  /** Something was learnt of a workload: those that wait and did not state their need get it anew. */
  renewNeed(
    workloadKey: string,
    { bytes, basis, evidence }: Omit<Need, 'gpus'> & { readonly evidence: NeedEvidence },
  ): void {
    this.#change(() =>
      this.#run(
        `UPDATE job SET bytes = ?, basis = ?, alone = 0,
           details = json_set(details, '$.evidence', json(?))
         WHERE workload_key = ? AND state = 'waiting' AND basis <> 'stated'`,
        bytes,
        basis,
        JSON.stringify(evidence),
        workloadKey,
      ),
    );
  }

  /** Something that happened to a job without changing its state, such as a warning. */
  note(id: string, data: Readonly<Record<string, unknown>>, atMs: number): void {
    this.#change(() => {
      this.#row(id);
      this.#journal(id, 'note', data, atMs);
    });
  }

  job(id: string): StoredJob | undefined {
    return this.#guard(() => {
      const row = /^\d{1,15}$/.test(id)
        ? this.#get('SELECT * FROM job WHERE sequence = ?', id)
        : undefined;
      return row && this.#whole(row);
    });
  }

  /** The job that was submitted under a name before. */
  submitted(submission: string): StoredJob | undefined {
    return this.#guard(() => {
      const row = this.#get('SELECT * FROM job WHERE submission = ?', submission);
      return row && this.#whole(row);
    });
  }

  /** Jobs in one of these states, the oldest first; `afterId` pages on. */
  jobs(states: readonly JobState[], afterId = '0', most = mostRows): readonly StoredJob[] {
    return this.list({ states, after: afterId, limit: most });
  }

  /** Jobs page by page, in the order in which they came or against it. */
  list({
    states = jobStates,
    after,
    newestFirst,
    limit = mostRows,
  }: JobFilter): readonly StoredJob[] {
    return this.#guard(() => {
      const most = Math.max(0, Math.min(limit, mostRows));
      const from =
        after === undefined ? (newestFirst ? Number.MAX_SAFE_INTEGER : 0) : Number(after);
      const sql = newestFirst
        ? 'SELECT * FROM job WHERE state = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?'
        : 'SELECT * FROM job WHERE state = ? AND sequence > ? ORDER BY sequence LIMIT ?';
      const rows = [...new Set(states)]
        .flatMap((state) => this.#all(sql, state, from, most))
        .toSorted((a, b) => integer(a, 'sequence') - integer(b, 'sequence'));
      const page = newestFirst ? rows.toReversed().slice(0, most) : rows.slice(0, most);
      const attempts = this.#attemptsOf(page);
      return page.map((row) => storedJob(row, attempts.get(integer(row, 'sequence')) ?? []));
    });
  }

  /** The whole queue in its order, as light as it can be: 100,000 of them in a moment. */
  waiting(): readonly WaitingJob[] {
    return this.#guard(() => {
      const longest = new Map(
        this.#all(
          "SELECT workload_key, max(seconds) AS seconds FROM run WHERE asked = 'none' GROUP BY 1",
        ).map((row) => [row['workload_key'], row['seconds']]),
      );
      return this.#all(
        `SELECT sequence, turn, bytes, basis, gpus, deadline_ms, workload_key, alone FROM job
         WHERE state = 'waiting' ORDER BY turn, sequence`,
      ).map((row) => waitingJob(row, longest.get(row['workload_key'])));
    });
  }

  /** How many jobs are in each state. */
  counts(): ReadonlyMap<string, number> {
    return this.#guard(
      () =>
        new Map(
          this.#all('SELECT state, count(*) AS n FROM job GROUP BY state').map((row) => [
            String(row['state']),
            integer(row, 'n'),
          ]),
        ),
    );
  }

  /** What happened after an event, the oldest first. */
  events(afterId: number, most = 1000): readonly JobEvent[] {
    return this.#guard(() =>
      this.#all(
        'SELECT * FROM event WHERE id > ? ORDER BY id LIMIT ?',
        afterId,
        Math.min(most, mostRows),
      ).map(storedEvent),
    );
  }

  /** The first and the last event that are kept; 0 where there is none. */
  eventRange(): { readonly first: number; readonly last: number } {
    return this.#guard(() => {
      const row = this.#one(
        'SELECT ifnull(min(id), 0) AS first, ifnull(max(id), 0) AS last FROM event',
      );
      return { first: integer(row, 'first'), last: integer(row, 'last') };
    });
  }

  /** What earlier runs of a workload measured, the latest first. */
  runsOf(workloadKey: string): readonly MeasuredRun[] {
    return this.#guard(() =>
      this.#all(
        'SELECT * FROM run WHERE workload_key = ? ORDER BY sequence DESC LIMIT ?',
        workloadKey,
        runsLookedAt,
      ).map(storedRun),
    );
  }

  /** The oldest of those that ended, beyond so many, with the runs whose files lie somewhere. */
  endedBeyond(
    kept: number,
  ): readonly { readonly id: string; readonly runId: string | undefined }[] {
    return this.#guard(() =>
      this.#all(
        `SELECT sequence, run_id FROM job WHERE ended_ms IS NOT NULL ORDER BY sequence DESC
         LIMIT ? OFFSET ?`,
        mostRows,
        kept,
      ).map((row) => {
        const runId = row['run_id'];
        return {
          id: String(integer(row, 'sequence')),
          runId: typeof runId === 'string' ? runId : undefined,
        };
      }),
    );
  }

  /** Forgets the oldest of what is over. What runs or waits, and what was measured, stays. */
  prune(keep: { readonly endedJobs: number; readonly events: number }): void {
    this.#change(() => {
      this.#run(
        `DELETE FROM job WHERE ended_ms IS NOT NULL AND sequence <= ifnull((SELECT sequence FROM job
         WHERE ended_ms IS NOT NULL ORDER BY sequence DESC LIMIT 1 OFFSET ?), 0)`,
        keep.endedJobs,
      );
      this.#run(
        'DELETE FROM event WHERE id <= ifnull((SELECT max(id) FROM event), 0) - ?',
        keep.events,
      );
    });
  }

  close(): void {
    this.#prepared.clear();
    this.#connection.close();
  }

  #move(
    id: string,
    to: JobState,
    data: Readonly<Record<string, unknown>>,
    atMs: number,
    update: () => Row,
  ): StoredJob {
    return this.#change(() => {
      const { job } = this.#whole(this.#row(id));
      if (!mayBecome(job.state, to)) throw badChange(job, to);
      const row = update();
      this.#journal(id, hasEnded(to) ? 'ended' : 'started', { state: to, ...data }, atMs);
      return this.#whole(row);
    });
  }

  #row(id: string): Row {
    const row = /^\d{1,15}$/.test(id) && this.#get('SELECT * FROM job WHERE sequence = ?', id);
    if (!row) throw unknownJob(id);
    return row;
  }

  #whole(row: Row): StoredJob {
    const sequence = integer(row, 'sequence');
    return storedJob(row, this.#attemptsOf([row]).get(sequence) ?? []);
  }

  /** Of many jobs with one question. One that never ran has none and is not asked for. */
  #attemptsOf(rows: readonly Row[]): ReadonlyMap<number, readonly Attempt[]> {
    const ids = rows
      .filter((row) => row['started_ms'] !== null)
      .map((row) => integer(row, 'sequence'));
    const found = new Map<number, Attempt[]>();
    if (ids.length === 0) return found;
    for (const row of this.#all(
      `SELECT job, data FROM attempt WHERE job IN (SELECT value FROM json_each(?))
       ORDER BY job, number`,
      JSON.stringify(ids),
    )) {
      const job = integer(row, 'job');
      const attempt: Attempt = json(row, 'data');
      const others = found.get(job);
      if (others === undefined) found.set(job, [attempt]);
      else others.push(attempt);
    }
    return found;
  }

  #journal(
    id: string | number,
    type: JobEventType,
    data: Readonly<Record<string, unknown>>,
    atMs: number,
  ): void {
    this.#run(
      'INSERT INTO event (at_ms, job, type, data) VALUES (?, ?, ?, ?)',
      atMs,
      id,
      type,
      JSON.stringify(data),
    );
  }

  /** All of it, or nothing. */
  #change<T>(work: () => T): T {
    return this.#guard(() => {
      const { database } = this.#connection;
      database.exec('BEGIN IMMEDIATE');
      try {
        const result = work();
        database.exec('COMMIT');
        return result;
      } catch (error) {
        // A full disk may have rolled it back already.
        if (database.isTransaction) database.exec('ROLLBACK');
        throw error;
      }
    });
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (error instanceof BadRow) throw storeFailure('broken-store', this.#path, error);
      throw failureOf(error, this.#path);
    }
  }

  #statement(sql: string): ReturnType<Connection['database']['prepare']> {
    const known = this.#prepared.get(sql) ?? this.#connection.database.prepare(sql);
    this.#prepared.set(sql, known);
    return known;
  }

  #all(sql: string, ...values: readonly Value[]): readonly Row[] {
    return this.#statement(sql).all(...values);
  }

  #get(sql: string, ...values: readonly Value[]): Row | undefined {
    return this.#statement(sql).get(...values);
  }

  #one(sql: string, ...values: readonly Value[]): Row {
    const row = this.#get(sql, ...values);
    if (row === undefined) throw new BadRow('no row');
    return row;
  }

  #run(sql: string, ...values: readonly Value[]): void {
    this.#statement(sql).run(...values);
  }
}

type Value = string | number | null;

function cut(reason: string): string {
  return reason.length <= reasonCharacters ? reason : `${reason.slice(0, reasonCharacters - 1)}…`;
}

/**
 * Opens the store of jobs, or makes one. Only one process can have it; a file that is damaged, or
 * not a store, is left as it is. Throws a `Failure`.
 *
 * @example
 * const store = await openJobStore('/var/lib/plimsoll/jobs.db');
 * for (const { job } of store.jobs(['waiting', 'running'])) console.log(job.id, job.state);
 * store.close();
 */
export async function openJobStore(path: string): Promise<JobStore> {
  return new JobStore(path, await connect(path));
}
