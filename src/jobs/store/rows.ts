import type { Attempt } from '../../run/types.js';
import type { MeasuredRun } from '../corrections.js';
import { type Basis, bases, type JobState, jobStates, type WaitingJob } from '../types.js';
import { type JobEvent, type JobEventType, jobEventTypes, type StoredJob } from './records.js';

/** A row as SQLite gives it. */
export type Row = Readonly<Record<string, unknown>>;

/** What a row holds is not what was written: the file is damaged. */
export class BadRow extends Error {}

export function storedJob(row: Row, attempts: readonly Attempt[]): StoredJob {
  const bytes = integer(row, 'bytes');
  const submittedMs = integer(row, 'submitted_ms');
  return {
    job: {
      id: String(integer(row, 'sequence')),
      name: text(row, 'name'),
      state: oneOf<JobState>(row, 'state', jobStates),
      reason: text(row, 'reason'),
      command: json(row, 'command'),
      priority: integer(row, 'priority'),
      submittedAt: new Date(submittedMs).toISOString(),
      reservation: row['reservation'] === null ? null : json(row, 'reservation'),
      attempts,
    },
    need: { bytes, basis: basisOf(row), gpus: integer(row, 'gpus') },
    turn: integer(row, 'turn'),
    workloadKey: text(row, 'workload_key'),
    details: json(row, 'details'),
    submittedMs,
    deadlineMs: optional(row, 'deadline_ms'),
    startedMs: optional(row, 'started_ms'),
    endedMs: optional(row, 'ended_ms'),
    runId: row['run_id'] === null ? undefined : text(row, 'run_id'),
    alone: integer(row, 'alone') === 1,
    ending: row['ending'] === null ? undefined : json(row, 'ending'),
  };
}

export function waitingJob(row: Row, longestSeconds: unknown): WaitingJob {
  return {
    id: String(integer(row, 'sequence')),
    turn: integer(row, 'turn'),
    bytes: integer(row, 'bytes'),
    basis: basisOf(row),
    gpus: integer(row, 'gpus'),
    deadlineMs: optional(row, 'deadline_ms'),
    expectedSeconds: typeof longestSeconds === 'number' ? longestSeconds : 'unknown',
    workloadKey: text(row, 'workload_key'),
    alone: integer(row, 'alone') === 1,
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
    data: json(row, 'data'),
  };
}

export function storedRun(row: Row): MeasuredRun {
  const asked = text(row, 'asked');
  const seconds = row['seconds'];
  if (typeof seconds !== 'number') throw new BadRow('seconds');
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

function optional(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : integer(row, column);
}

function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== 'string') throw new BadRow(column);
  return value;
}

/** Written by us, as the type it is taken for; only that it is JSON is checked. */
export function json(row: Row, column: string) {
  try {
    return JSON.parse(text(row, column));
  } catch {
    throw new BadRow(column);
  }
}

function oneOf<T extends string>(row: Row, column: string, values: readonly T[]): T {
  const found = values.find((value) => value === row[column]);
  if (found === undefined) throw new BadRow(column);
  return found;
}
