import { Failure } from '../../failure.js';
import type { Attempt } from '../../run/types.js';
import { checkArguments, fileName } from '../../units/arguments.js';
import { bases } from '../basis.js';
import { measuredRun } from '../corrections.js';
import type { JobReason } from '../reasons/types.js';
import { hasEnded, type JobState, mayBecome, type Need } from '../types.js';
import { turnOf } from '../waiting-list.js';
import { JobReader, Transactions } from './job-reader.js';
import {
  badChange,
  type ClockMark,
  type Ending,
  type EstimatedJob,
  type JobEventType,
  type JobResize,
  type JobStart,
  type NeedEvidence,
  type NewJob,
  type StoredJob,
} from './records.js';
import { damageIn, integer, type Row, storedJob } from './rows.js';
import { connect } from './sqlite.js';

const safe = `BETWEEN ${Number.MIN_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER}`;
const date = 'BETWEEN -8640000000000000 AND 8640000000000000';
const quoted = (names: readonly string[]) => names.map((name) => `'${name}'`).join(', ');

/** SQL that is true where a text is JSON and the condition holds. A CASE looks no further otherwise. */
const json = (column: string, condition: string) =>
  `CASE WHEN instr(${column}, char(0)) = 0 AND json_valid(${column}) THEN ${condition} END`;

const isCommand = `json_type(command) = 'array' AND json_array_length(command) > 0
  AND NOT EXISTS (SELECT 1 FROM json_each(command) WHERE type <> 'text')`;
const isDetails = `json_type(details) = 'object' AND NOT EXISTS (
  SELECT 1 FROM json_each(details) AS one WHERE (key = 'cwd' AND type <> 'text') OR (key = 'env' AND
    (type <> 'object' OR EXISTS (SELECT 1 FROM json_each(one.value) WHERE type <> 'text'))))`;

/**
 * SQL that is true where the row of a waiting job surely holds what we write there; `damageIn` looks
 * at all others. SQLite checks 100,000 rows in the time in which it hands out 20,000.
 */
const isWholeWaiting = `(state = 'waiting' AND reason = 'null' AND reservation IS NULL
  AND run_id IS NULL AND started_ms IS NULL AND ending IS NULL
  AND typeof(name) = 'text' AND typeof(owner) = 'text' AND typeof(workload_key) = 'text'
  AND basis IN (${quoted(bases)}) AND priority ${safe} AND turn ${safe} AND bytes ${safe}
  AND gpus ${safe} AND alone ${safe} AND submitted_ms ${date}
  AND (deadline_ms IS NULL OR deadline_ms ${date})
  AND ${json('command', isCommand)} AND ${json('details', isDetails)})`;

/**
 * All jobs, durably, in one SQLite file with one owner. Every change is one transaction with its
 * event: when a method returns, the change is on the disk; when it throws, nothing of it is.
 */
export class JobStore extends JobReader {
  /** Keeps a job: `waiting`, or `refused` where it can never run. Its turn is by the queue's time. */
  submit(job: NewJob, nowMs: number, queueMs = nowMs): StoredJob {
    checkNewJob(job);
    return this.sql.change(() => {
      const known =
        job.submission && this.sql.get('SELECT * FROM job WHERE submission = ?', job.submission);
      if (known) return this.whole(known);
      const state: JobState = job.refused === undefined ? 'waiting' : 'refused';
      const reason = job.refused ?? null;
      const row = this.sql.one(
        `INSERT INTO job (submission, state, reason, name, command, priority, turn, submitted_ms,
           deadline_ms, bytes, basis, gpus, workload_key, details, ended_ms, alone, owner, estimating)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
        job.submission ?? null,
        state,
        JSON.stringify(reason),
        job.name,
        JSON.stringify(job.command),
        job.priority,
        turnOf(queueMs, job.priority),
        nowMs,
        job.deadlineMs ?? null,
        job.need.bytes,
        job.need.basis,
        job.need.gpus,
        job.workloadKey,
        JSON.stringify(job.details),
        state === 'refused' ? nowMs : null,
        job.alone ? 1 : 0,
        job.owner,
        job.estimating && state === 'waiting' ? 1 : null,
      );
      this.#journal(integer(row, 'sequence'), 'submitted', { state, reason }, nowMs);
      return storedJob(row, []);
    });
  }

  /** The need of a job that waited for its estimate; refused, it ends. */
  estimated(id: string, found: EstimatedJob, atMs: number): StoredJob {
    return this.sql.change(() => {
      const before = this.whole(this.row(id));
      if (before.job.state !== 'waiting' || !before.estimating) {
        throw badChange(before.job, 'an estimate');
      }
      const { need, alone, evidence, deadlineMs, refused, leastBytes } = found;
      const state: JobState = refused === undefined ? 'waiting' : 'refused';
      const reason = refused ?? null;
      const row = this.sql.one(
        `UPDATE job SET state = ?, reason = ?, bytes = ?, basis = ?, alone = ?, estimating = NULL,
           deadline_ms = ?, ended_ms = ?, details = json_set(details, '$.evidence', json(?))
         WHERE sequence = ? RETURNING *`,
        state,
        JSON.stringify(reason),
        need.bytes,
        need.basis,
        alone ? 1 : 0,
        deadlineMs ?? null,
        refused === undefined ? null : atMs,
        JSON.stringify(evidence),
        id,
      );
      if (leastBytes !== undefined) {
        this.sql.run(
          "UPDATE job SET details = json_set(details, '$.elastic.foundBytes', ?) WHERE sequence = ?",
          leastBytes,
          id,
        );
      }
      const type = refused === undefined ? 'note' : 'ended';
      this.#journal(id, type, { state, reason }, atMs);
      return this.whole(leastBytes === undefined ? row : this.row(id));
    });
  }

  /**
   * Another reservation of a job that runs. More is written before the program may take it, less after
   * it keeps to it: after a crash in between, what is written is never too little.
   */
  resize(id: string, { bytes, byPerson }: JobResize, atMs: number): StoredJob {
    return this.sql.change(() => {
      const { job } = this.whole(this.row(id));
      if (job.state !== 'running' || job.reservation === null) throw badChange(job, 'a limit');
      const limit = byPerson ? ", details = json_set(details, '$.limitBytes', ?)" : '';
      const row = this.sql.one(
        `UPDATE job SET reservation = ?${limit} WHERE sequence = ? RETURNING *`,
        JSON.stringify({ ...job.reservation, bytes }),
        ...(byPerson ? [bytes] : []),
        id,
      );
      this.#journal(id, 'note', { reservedBytes: bytes, before: job.reservation.bytes }, atMs);
      return this.whole(row);
    });
  }

  /** To be called before the program is launched: one that was started is never started again. */
  start(id: string, { reservation, runId, atMs }: JobStart): StoredJob {
    return this.#move(id, 'running', { reason: null, reservation, runId }, atMs, () =>
      this.sql.one(
        `UPDATE job SET state = 'running', reason = 'null', reservation = ?, run_id = ?, started_ms = ?
         WHERE sequence = ? RETURNING *`,
        JSON.stringify(reservation),
        runId,
        atMs,
        id,
      ),
    );
  }

  /** The row of a job, for a file beside the store. */
  record(id: string): Row {
    return this.sql.guard(() => this.row(id));
  }

  /** The highest id that this store gave to a job. */
  lastId(): number {
    return this.sql.guard(() => {
      const row = this.sql.get("SELECT seq FROM sqlite_sequence WHERE name = 'job'");
      return row === undefined ? 0 : integer(row, 'seq');
    });
  }

  /**
   * Makes up for what this store forgot, for it is older than the files beside it: jobs that had
   * started run again in it, and no id up to `lastId` is given a second time. Answers the jobs that it
   * took back.
   */
  catchUp(records: readonly Row[], lastId: number, atMs: number): readonly string[] {
    return this.sql.change(() => {
      const taken = records.filter(isStartedJob).map((record) => this.#takeBack(record, atMs));
      if (this.lastId() < lastId) {
        this.sql.run("DELETE FROM sqlite_sequence WHERE name = 'job'");
        this.sql.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('job', ?)", lastId);
      }
      return taken.flat();
    });
  }

  /** The end of a job, whichever it is. */
  end(id: string, state: JobState, reason: JobReason | null, atMs: number): StoredJob {
    const kept = reason === null ? null : shortened(reason);
    return this.#move(id, state, { reason: kept }, atMs, () =>
      this.sql.one(
        'UPDATE job SET state = ?, reason = ?, ended_ms = ? WHERE sequence = ? RETURNING *',
        state,
        JSON.stringify(kept),
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
    return this.sql.change(() => {
      const before = this.whole(this.row(id));
      if (before.job.state !== 'running') throw badChange(before.job, 'an attempt');
      // Told again after a crash, it is the same attempt.
      if (before.job.attempts.some(({ number }) => number === attempt.number)) return before;
      const { number } = attempt;
      this.sql.run('INSERT INTO attempt VALUES (?, ?, ?)', id, number, JSON.stringify(attempt));
      const run = measuredRun(attempt, besideBytes);
      if (run !== undefined) {
        this.sql.run(
          'INSERT INTO run (workload_key, peak_bytes, asked, seconds) VALUES (?, ?, ?, ?)',
          before.workloadKey,
          run.peakBytes,
          String(run.askedBytes),
          run.seconds,
        );
      }
      this.#journal(id, 'attempt', { number, exitCode: attempt.exitCode }, atMs);
      return this.whole(this.row(id));
    });
  }

  /** Decides how a running job shall end, before anybody ends it: it stays decided after a crash. */
  endSoon(id: string, ending: Ending, atMs: number): StoredJob {
    return this.sql.changeAlways(() => {
      const before = this.whole(this.row(id));
      if (before.job.state !== 'running') throw badChange(before.job, ending.state);
      // What was decided first is why it ends.
      if (before.ending !== undefined) return before;
      const kept = { state: ending.state, reason: shortened(ending.reason) };
      const row = this.sql.one(
        'UPDATE job SET ending = ? WHERE sequence = ? RETURNING *',
        JSON.stringify(kept),
        id,
      );
      this.#journal(id, 'note', { ending: kept.state, note: kept.reason }, atMs);
      return this.whole(row);
    });
  }

  /** Something was learnt of a workload: those that wait and did not state their need get it anew. */
  renewNeed(
    workloadKey: string,
    { bytes, basis, evidence }: Omit<Need, 'gpus'> & { readonly evidence: NeedEvidence },
  ): void {
    this.sql.change(() =>
      this.sql.run(
        `UPDATE job SET bytes = ?, basis = ?, alone = 0, estimating = NULL,
           details = json_set(details, '$.evidence', json(?))
         WHERE workload_key = ? AND state = 'waiting' AND basis <> 'stated'`,
        bytes,
        basis,
        JSON.stringify(evidence),
        workloadKey,
      ),
    );
  }

  /** Ends those that are not over and whose rows are damaged: they can never run. Answers their ids. */
  endDamaged(atMs: number): readonly string[] {
    const ended: string[] = [];
    const rows = this.sql.guard(() =>
      this.sql.all(`SELECT * FROM job WHERE ended_ms IS NULL AND ifnull(${isWholeWaiting}, 0) = 0`),
    );
    for (const row of rows) {
      const column = damageIn(row);
      if (column === undefined) continue;
      const id = integer(row, 'sequence');
      const reason: JobReason = { code: 'damaged-record', column };
      this.sql.change(() => {
        this.sql.run(
          "UPDATE job SET state = 'failed', reason = ?, ended_ms = ? WHERE sequence = ?",
          JSON.stringify(reason),
          atMs,
          id,
        );
        this.#journal(id, 'ended', { state: 'failed', reason }, atMs);
      });
      ended.push(String(id));
    }
    return ended;
  }

  /** Something that happened to a job without changing its state, such as a warning. */
  note(id: string, data: Readonly<Record<string, unknown>>, atMs: number): void {
    this.sql.change(() => {
      this.row(id);
      this.#journal(id, 'note', data, atMs);
    });
  }

  /** Forgets the oldest of what is over. What runs or waits, and what was measured, stays. */
  prune(keep: { readonly endedJobs: number; readonly events: number }): void {
    this.sql.change(() => {
      this.sql.run(
        `DELETE FROM job WHERE ended_ms IS NOT NULL AND sequence <= ifnull((SELECT sequence FROM job
         WHERE ended_ms IS NOT NULL ORDER BY sequence DESC LIMIT 1 OFFSET ?), 0)`,
        keep.endedJobs,
      );
      this.sql.run(
        'DELETE FROM event WHERE id <= ifnull((SELECT max(id) FROM event), 0) - ?',
        keep.events,
      );
    });
  }

  /** Where the time of the queue stands, for the next owner. */
  keepClock(mark: ClockMark): void {
    this.sql.change(() =>
      this.sql.run('INSERT OR REPLACE INTO clock VALUES (1, ?)', JSON.stringify(mark)),
    );
  }

  /** Room for ends of jobs on a disk that may run full. */
  keepReserve(): void {
    this.sql.keepReserve();
  }

  /** Why nothing can be kept at the moment; undefined where it can, as far as anybody tried. */
  get trouble(): Failure | undefined {
    return this.sql.trouble;
  }

  /** Tries to write, without a change: trouble that is over is known to be over. */
  probe(): void {
    this.sql.probe();
  }

  close(): void {
    this.sql.close();
  }

  #takeBack(record: Row, atMs: number): readonly string[] {
    const id = integer(record, 'sequence');
    const known = this.sql.get('SELECT * FROM job WHERE sequence = ?', id);
    if (known !== undefined && known['state'] !== 'waiting') return [];
    const { submission } = record;
    const isTaken =
      typeof submission === 'string' &&
      this.sql.get('SELECT 1 FROM job WHERE submission = ? AND sequence <> ?', submission, id);
    const row: Row = { ...record, submission: isTaken ? null : submission };
    const columns = this.sql
      .all("SELECT name FROM pragma_table_info('job')")
      .map(({ name }) => String(name));
    const values = columns.map((column) => {
      const value = row[column];
      return typeof value === 'string' || typeof value === 'number' ? value : null;
    });
    this.sql.run(
      `INSERT OR REPLACE INTO job (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
      ...values,
    );
    this.#journal(id, 'started', { state: 'running', takenBack: true }, atMs);
    return [String(id)];
  }

  #move(
    id: string,
    to: JobState,
    data: Readonly<Record<string, unknown>>,
    atMs: number,
    update: () => Row,
  ): StoredJob {
    const isEnd = hasEnded(to);
    const change = <T>(work: () => T): T =>
      isEnd ? this.sql.changeAlways(work) : this.sql.change(work);
    return change(() => {
      const { job } = this.whole(this.row(id));
      if (!mayBecome(job.state, to)) throw badChange(job, to);
      const row = update();
      this.#journal(id, isEnd ? 'ended' : 'started', { state: to, ...data }, atMs);
      return this.whole(row);
    });
  }

  #journal(
    id: string | number,
    type: JobEventType,
    data: Readonly<Record<string, unknown>>,
    atMs: number,
  ): void {
    this.sql.run(
      'INSERT INTO event (at_ms, job, type, data) VALUES (?, ?, ?, ?)',
      atMs,
      id,
      type,
      JSON.stringify(data),
    );
  }
}

/** Whether a record is whole, and of a job that had started. */
function isStartedJob(record: Row): boolean {
  return (
    damageIn(record) === undefined &&
    record['state'] === 'running' &&
    record['run_id'] !== null &&
    record['reservation'] !== null
  );
}

/** A message from elsewhere may be as long as it likes; what is kept is not. */
function shortened(reason: JobReason): JobReason {
  return 'message' in reason && reason.message.length > reasonCharacters
    ? { ...reason, message: `${reason.message.slice(0, reasonCharacters - 1)}…` }
    : reason;
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
  checkArguments('openJobStore', { path }, { path: fileName });
  return new JobStore(new Transactions(path, await connect(path)));
}

/** Linux takes commands of up to 2 MiB; what is kept for each of 100,000 jobs should be less. */
const commandBytes = 256 * 1024;
/** The environment and the workload of a job, as JSON. */
const detailBytes = 256 * 1024;
/** It stands in a column of a table. */
const nameCharacters = 200;
/** Beyond this the order is by priority alone for half a day: age would mean nothing. */
const priorities = { least: -100, most: 100 };
/** The largest machines have 16. */
const maxGpus = 64;
/** A sentence or two, not a log. */
const reasonCharacters = 2000;

/** Refuses what cannot be kept; so does every caller learn the same limits. */
function checkNewJob(job: NewJob): void {
  const { command, name, priority, need, details } = job;
  const checks: readonly (readonly [boolean, string, string, string])[] = [
    [
      command.length > 0 && command[0] !== '' && command.every((word) => !word.includes('\0')),
      'The command is empty.',
      'Give the program and its arguments as a list of texts without zero bytes.',
      'command',
    ],
    [
      bytesOf(command) <= commandBytes,
      `The command has ${bytesOf(command)} bytes.`,
      `At most ${commandBytes} are taken; put long input into a file.`,
      'command',
    ],
    [
      name.length <= nameCharacters,
      `The name has ${name.length} characters.`,
      `At most ${nameCharacters} are taken.`,
      'name',
    ],
    [
      Number.isInteger(priority) && priority >= priorities.least && priority <= priorities.most,
      `The priority is ${priority}.`,
      `Give a whole number from ${priorities.least} to ${priorities.most}.`,
      'priority',
    ],
    [
      Number.isInteger(need.gpus) && need.gpus >= 0 && need.gpus <= maxGpus,
      `The job asks for ${need.gpus} GPUs.`,
      `Give a whole number from 0 (the host's memory) to ${maxGpus}.`,
      'gpus',
    ],
    [
      Number.isSafeInteger(need.bytes) && need.bytes >= 0,
      `The job asks for ${need.bytes} bytes.`,
      'Give a whole number of bytes.',
      'memoryBytes',
    ],
    [
      bytesOf(details) <= detailBytes,
      `Workload, environment and settings of the job have ${bytesOf(details)} bytes.`,
      `At most ${detailBytes} are taken.`,
      'workload',
    ],
  ];
  const missed = checks.find(([holds]) => !holds);
  if (missed === undefined) return;
  const [, fact, next, field] = missed;
  throw new Failure({ kind: 'input', code: 'bad-job', fact, next, field });
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}
