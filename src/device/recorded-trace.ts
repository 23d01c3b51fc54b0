import { createReadStream } from 'node:fs';
import { Failure } from '../failure.js';
import { readReason } from '../files/system-errors.js';
import { checkArguments, fileName, string } from '../units/arguments.js';
import type { Known } from '../units/known.js';
import {
  badTrace,
  isProfileReport,
  isRecord,
  type RecordedTrace,
  type TraceRow,
  traceOfProfile,
} from './profile-trace.js';

export type { RecordedTrace, TraceRow };

/** A week at one reading a second is 604,800 rows. */
const maxRows = 2_000_000;

/** Such a row is some 50 bytes; a larger file is not one of ours and would only fill memory. */
const fileLimitBytes = 128 * 1024 * 1024;

const memoryColumns = ['allocated', 'reserved', 'device_used'] as const;

/**
 * Reads a recorded trace: `{"capacity": bytes, "columns": ["seconds", ...], "rows": [[...]]}`, or
 * one device of the report that `plimsoll profile --output` writes (`device`, such as `gpu:0`,
 * where it holds several). Throws a `Failure` (`no-file` or `bad-trace`) that names the place.
 *
 * @example
 * const trace = await readRecordedTrace('profile.json', 'gpu:0');
 * trace.rows.at(-1)?.seconds;
 */
export async function readRecordedTrace(path: string, device?: string): Promise<RecordedTrace> {
  checkArguments('readRecordedTrace', { path, device }, { path: fileName, device: string }, [
    'path',
  ]);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // A stream, so that a pipe or a device works and an endless one is cut off.
    for await (const chunk of createReadStream(path)) {
      if (!Buffer.isBuffer(chunk)) continue;
      size += chunk.length;
      if (size > fileLimitBytes) break;
      chunks.push(chunk);
    }
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'no-file',
      fact: `The trace ${path} cannot be read: ${readReason(error)}.`,
      next: 'Check the path and its permissions.',
      cause: error,
    });
  }
  if (size > fileLimitBytes) throw badTrace(path, `it is larger than ${fileLimitBytes} bytes`);
  return parseRecordedTrace(Buffer.concat(chunks).toString('utf8'), path, device);
}

/** The same from text; `place` names it in errors. Fractions of bytes are rounded. */
export function parseRecordedTrace(text: string, place: string, device?: string): RecordedTrace {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text.replace(/^\u{feff}/u, ''));
  } catch (error) {
    throw badTrace(place, `it is not JSON (${error instanceof Error ? error.message : 'unknown'})`);
  }
  if (!isRecord(parsed)) throw badTrace(place, 'it is not an object');
  if (isProfileReport(parsed)) return traceOfProfile(parsed, place, device);
  if (device !== undefined) {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `${place} is a trace of one device without a name; ${device} was asked for.`,
      next: 'Leave the device out.',
    });
  }
  const { capacity, columns, rows } = parsed;
  if (
    typeof capacity !== 'number' ||
    !(capacity >= 1) ||
    !Number.isSafeInteger(Math.round(capacity))
  )
    throw badTrace(place, '"capacity" is not a number of bytes above 0');
  const indexes = columnIndexes(columns, place);
  if (!Array.isArray(rows)) throw badTrace(place, '"rows" is not a list');
  if (rows.length === 0) throw badTrace(place, '"rows" is empty');
  if (rows.length > maxRows) throw badTrace(place, `it has more than ${maxRows} rows`);
  let before = Number.NEGATIVE_INFINITY;
  const read = rows.map((row: unknown, index): TraceRow => {
    const values = new RowValues(row, indexes, `${place}, row ${index + 1}`);
    const seconds = values.number('seconds');
    if (seconds <= before) {
      throw badTrace(values.place, `its time ${seconds} is not after ${before}, the row before`);
    }
    before = seconds;
    return {
      seconds,
      allocatedBytes: values.bytes('allocated'),
      reservedBytes: values.bytes('reserved'),
      deviceUsedBytes: values.bytes('device_used'),
    };
  });
  return { capacityBytes: Math.round(capacity), rows: read };
}

class RowValues {
  readonly place: string;
  readonly #row: readonly unknown[];
  readonly #indexes: ReadonlyMap<string, number>;

  constructor(row: unknown, indexes: ReadonlyMap<string, number>, place: string) {
    if (!Array.isArray(row)) throw badTrace(place, 'it is not a list');
    this.place = place;
    this.#row = row;
    this.#indexes = indexes;
  }

  /** A finite number, 0 or more. */
  number(column: string): number {
    const index = this.#indexes.get(column);
    const value = index === undefined ? undefined : this.#row[index];
    if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
      const shown = JSON.stringify(value)?.slice(0, 40) ?? 'nothing';
      throw badTrace(`${this.place}, column "${column}"`, `${shown} is not a number of 0 or more`);
    }
    return value;
  }

  bytes(column: string): Known<number> {
    if (!this.#indexes.has(column)) return 'unknown';
    const bytes = Math.round(this.number(column));
    if (Number.isSafeInteger(bytes)) return bytes;
    throw badTrace(`${this.place}, column "${column}"`, `${bytes} is too large`);
  }
}

function columnIndexes(columns: unknown, place: string): ReadonlyMap<string, number> {
  if (!Array.isArray(columns)) throw badTrace(place, '"columns" is not a list');
  const indexes = new Map<string, number>();
  columns.forEach((name: unknown, index) => {
    if (typeof name !== 'string') throw badTrace(place, `column ${index + 1} has no name`);
    if (indexes.has(name)) throw badTrace(place, `there are two columns "${name}"`);
    indexes.set(name, index);
  });
  if (!indexes.has('seconds')) throw badTrace(place, 'there is no column "seconds"');
  if (!memoryColumns.some((name) => indexes.has(name))) {
    throw badTrace(place, `there is none of the columns "${memoryColumns.join('", "')}"`);
  }
  return indexes;
}
