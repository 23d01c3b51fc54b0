import { isText, isTexts } from '../../run/store/run-plan.js';
import type { Attempt } from '../../run/types.js';
import { type Basis, bases } from '../basis.js';
import type { MeasuredRun } from '../corrections.js';
import { leastBytesOf } from '../elastic.js';
import { isReason } from '../reasons/is-reason.js';
import type { JobReason } from '../reasons/types.js';
import {
  type JobState,
  jobStates,
  ownerName,
  type Reservation,
  type WaitingJob,
} from '../types.js';
import {
  type ClockMark,
  type Ending,
  type JobDetails,
  type JobEvent,
  type JobEventType,
  jobEventTypes,
  type StoredJob,
} from './records.js';

/** A row as SQLite gives it. */
export type Row = Readonly<Record<string, unknown>>;

/** What a row holds is not what was written: the file is damaged. */
export class BadRow extends Error {}

/** A job whose row is damaged is shown as one that failed: it must not hide the others. */
export function storedJob(row: Row, attempts: readonly Attempt[]): StoredJob {
  const damage = damageIn(row);
  return damage === undefined ? wholeJob(row, attempts) : damagedJob(row, damage);
}

/** The column that does not hold what we write there; undefined where all of them do. */
export function damageIn(row: Row): string | undefined {
  try {
    wholeJob(row, []);
    return undefined;
  } catch (error) {
    if (error instanceof BadRow) return error.message;
    throw error;
  }
}

function damagedJob(row: Row, column: string): StoredJob {
  const number = (name: string): number => {
    const value = row[name];
    return typeof value === 'number' && Math.abs(value) <= lastDateMs ? value : 0;
  };
  const { name, owner } = row;
  return {
    job: {
      id: String(integer(row, 'sequence')),
      name: typeof name === 'string' ? name : '',
      owner: typeof owner === 'string' ? owner : ownerName,
      state: 'failed',
      reason: { code: 'damaged-record', column },
      command: [],
      priority: number('priority'),
      submittedAt: new Date(number('submitted_ms')).toISOString(),
      reservation: null,
      attempts: [],
    },
    need: { bytes: number('bytes'), basis: 'unknown', gpus: number('gpus') },
    turn: number('turn'),
    workloadKey: '',
    details: {},
    submittedMs: number('submitted_ms'),
    deadlineMs: undefined,
    startedMs: undefined,
    endedMs: number('ended_ms'),
    runId: undefined,
    alone: false,
    estimating: false,
    ending: undefined,
  };
}

function wholeJob(row: Row, attempts: readonly Attempt[]): StoredJob {
  const bytes = integer(row, 'bytes');
  const submittedMs = date(row, 'submitted_ms');
  return {
    job: {
      id: String(integer(row, 'sequence')),
      name: text(row, 'name'),
      owner: text(row, 'owner'),
      state: oneOf<JobState>(row, 'state', jobStates),
      reason: checked(row, 'reason', isReasonOrNull),
      command: checked(row, 'command', isCommand),
      priority: integer(row, 'priority'),
      submittedAt: new Date(submittedMs).toISOString(),
      reservation: row['reservation'] === null ? null : checked(row, 'reservation', isReservation),
      attempts,
    },
    need: { bytes, basis: basisOf(row), gpus: integer(row, 'gpus') },
    turn: integer(row, 'turn'),
    workloadKey: text(row, 'workload_key'),
    details: checked(row, 'details', isDetails),
    submittedMs,
    deadlineMs: optional(row, 'deadline_ms', date),
    startedMs: optional(row, 'started_ms', date),
    endedMs: optional(row, 'ended_ms', date),
    runId: row['run_id'] === null ? undefined : text(row, 'run_id'),
    alone: integer(row, 'alone') === 1,
    estimating: row['estimating'] === 1,
    ending: row['ending'] === null ? undefined : checked(row, 'ending', isEnding),
  };
}

export function waitingJob(row: Row, longestSeconds: unknown): WaitingJob {
  return {
    id: String(integer(row, 'sequence')),
    owner: text(row, 'owner'),
    turn: integer(row, 'turn'),
    priority: integer(row, 'priority'),
    bytes: integer(row, 'bytes'),
    basis: basisOf(row),
    gpus: integer(row, 'gpus'),
    deadlineMs: optional(row, 'deadline_ms', date),
    expectedSeconds: typeof longestSeconds === 'number' ? longestSeconds : 'unknown',
    workloadKey: text(row, 'workload_key'),
    alone: integer(row, 'alone') === 1,
    estimating: row['estimating'] === 1,
    leastBytes: leastBytesOf(row['least_bytes']),
  };
}

/** Earlier versions called what nothing was known of estimated. */
function basisOf(row: Row): Basis {
  const basis = oneOf<Basis>(row, 'basis', bases);
  return basis === 'estimated' && integer(row, 'alone') === 1 ? 'unknown' : basis;
}

export function storedEvent(row: Row): JobEvent {
  return {
    id: integer(row, 'id'),
    atMs: integer(row, 'at_ms'),
    jobId: String(integer(row, 'job')),
    type: oneOf<JobEventType>(row, 'type', jobEventTypes),
    data: checked(row, 'data', isObject),
  };
}

export function storedRun(row: Row): MeasuredRun {
  const asked = text(row, 'asked');
  const seconds = row['seconds'];
  if (typeof seconds !== 'number') throw new BadRow('seconds');
  if (!/^(none|unknown|\d{1,15})$/.test(asked)) throw new BadRow('asked');
  return {
    peakBytes: integer(row, 'peak_bytes'),
    askedBytes: asked === 'none' || asked === 'unknown' ? asked : Number(asked),
    seconds,
  };
}

export function integer(row: Row, column: string): number {
  const value = row[column];
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw new BadRow(column);
  return value;
}

function optional(
  row: Row,
  column: string,
  read: (row: Row, column: string) => number,
): number | undefined {
  return row[column] === null ? undefined : read(row, column);
}

function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== 'string') throw new BadRow(column);
  return value;
}

/** What a column holds as JSON, once it is known to be what it is taken for. */
export function checked<T>(row: Row, column: string, is: (value: unknown) => value is T): T {
  let value: unknown;
  try {
    value = JSON.parse(text(row, column));
  } catch {
    throw new BadRow(column);
  }
  if (!is(value)) throw new BadRow(column);
  return value;
}

/** The last that a date of JavaScript can be, on either side of 1970. */
const lastDateMs = 8.64e15;

function date(row: Row, column: string): number {
  const value = integer(row, column);
  if (Math.abs(value) > lastDateMs) throw new BadRow(column);
  return value;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isClockMark(value: unknown): value is ClockMark {
  return (
    isObject(value) &&
    isText(value['boot']) &&
    ['upMs', 'queueMs', 'epochMs'].every((name) => Number.isSafeInteger(value[name]))
  );
}

function isCommand(value: unknown): value is readonly string[] {
  return isTexts(value) && value.length > 0;
}

function isReservation(value: unknown): value is Reservation {
  return isObject(value) && isTexts(value['devices']) && typeof value['bytes'] === 'number';
}

function isDetails(value: unknown): value is JobDetails {
  const { cwd, env } = isObject(value) ? value : { cwd: null };
  const isFolder = cwd === undefined || isText(cwd);
  return isFolder && (env === undefined || (isObject(env) && Object.values(env).every(isText)));
}

function isReasonOrNull(value: unknown): value is JobReason | null {
  return value === null || isReason(value);
}

function isEnding(value: unknown): value is Ending {
  return (
    isObject(value) &&
    (value['state'] === 'cancelled' || value['state'] === 'failed') &&
    isReason(value['reason'])
  );
}

function oneOf<T extends string>(row: Row, column: string, values: readonly T[]): T {
  const found = values.find((value) => value === row[column]);
  if (found === undefined) throw new BadRow(column);
  return found;
}
