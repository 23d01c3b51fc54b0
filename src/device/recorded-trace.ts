import { createReadStream } from 'node:fs';
import { Failure } from '../failure.js';
import { readReason } from '../files/system-errors.js';
import { checkArguments, fileName, string } from '../units/arguments.js';
import { isKnown, type Known } from '../units/known.js';

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

type Json = Readonly<Record<string, unknown>>;

/** One column of a profile: the least and the most in each bucket of time. */
interface Band {
  readonly min: readonly Known<number>[];
  readonly max: readonly Known<number>[];
}

interface Series {
  readonly seconds: readonly number[];
  readonly used: Band;
  readonly allocated: Band | undefined;
  readonly reserved: Band | undefined;
}

/** Whether this is the report that `plimsoll profile --output` writes. */
function isProfileReport(parsed: Json): boolean {
  return parsed['capacity'] === undefined && isRecord(parsed['devices']);
}

/**
 * The series of one device of a profile as a trace. A short profile holds every sample. In a long
 * one a bucket of time stands for several: its minimum comes first, its maximum half a bucket
 * later, so that floors and peaks both survive.
 */
function traceOfProfile(report: Json, place: string, wanted?: string): RecordedTrace {
  const [id, device] = chooseDevice(
    isRecord(report['devices']) ? report['devices'] : {},
    place,
    wanted,
  );
  const where = `${place}, device ${id}`;
  const limit = isRecord(device['limit']) ? device['limit'] : {};
  const capacityBytes = bytesOf(limit['bytes']);
  if (!isKnown(capacityBytes) || capacityBytes < 1) throw badTrace(where, 'its limit is not known');
  const series = seriesOf(device['series'], where);
  const isThinned = series.seconds.some((_, at) => spreadAt(series, at));
  const rows = series.seconds.flatMap((_, at) =>
    bucketRows(series, at, limit['of'] === 'allocator'),
  );
  if (rows.length === 0) throw badTrace(where, 'it has no samples');
  const end = series.seconds.at(-1) ?? 0;
  const bucket = (end - (series.seconds[0] ?? 0)) / Math.max(1, series.seconds.length - 1);
  const thinned = `; each ${Number(bucket.toPrecision(2))} s of it are one minimum and one maximum`;
  const origin = `${id} of the profile ${place}${isThinned ? thinned : ''}`;
  return { capacityBytes, rows, origin };
}

/** The one asked for; else the only device, or the only GPU beside the host. */
function chooseDevice(devices: Json, place: string, wanted: string | undefined): [string, Json] {
  const all = Object.entries(devices).filter((entry): entry is [string, Json] =>
    isRecord(entry[1]),
  );
  const gpus = all.filter(([, device]) => device['kind'] === 'gpu');
  const candidates =
    wanted === undefined
      ? gpus.length === 1
        ? gpus
        : all
      : all.filter(([id]) => id === wanted || id === `gpu:${wanted}`);
  const [first] = candidates;
  if (first !== undefined && candidates.length === 1) return first;
  const names = all.map(([id]) => id).join(', ');
  if (names === '') throw badTrace(place, 'it is a profile of no device');
  throw badTrace(
    place,
    wanted === undefined
      ? `it is a profile of several devices (${names}); name one with "plimsoll replay --device"`
      : `it is a profile without a device ${wanted}; it has ${names}`,
  );
}

function seriesOf(value: unknown, where: string): Series {
  const series = isRecord(value) ? value : {};
  const seconds = numbers(series['seconds']);
  const used = bandOf(series['usedBytes'], seconds?.length);
  if (!seconds || !used) throw badTrace(where, 'its series cannot be read');
  if (seconds.some((at, index) => index > 0 && at <= (seconds[index - 1] ?? 0))) {
    throw badTrace(where, 'the times of its series do not rise');
  }
  const column = (name: string): Band | undefined => {
    const band = bandOf(series[name], seconds.length);
    if (!band && series[name] !== undefined) throw badTrace(where, `its "${name}" cannot be read`);
    return band;
  };
  return { seconds, used, allocated: column('allocatedBytes'), reserved: column('reservedBytes') };
}

function bandOf(value: unknown, length: number | undefined): Band | undefined {
  if (!isRecord(value)) return undefined;
  const [min, max] = [byteList(value['min'], length), byteList(value['max'], length)];
  return min && max ? { min, max } : undefined;
}

function byteList(
  value: unknown,
  length: number | undefined,
): readonly Known<number>[] | undefined {
  return Array.isArray(value) && value.length === length ? value.map(bytesOf) : undefined;
}

function numbers(value: unknown): readonly number[] | undefined {
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  const seconds = list.filter((one): one is number => typeof one === 'number' && one >= 0);
  return seconds.length > 0 && seconds.length === list.length ? seconds : undefined;
}

function bytesOf(value: unknown): Known<number> {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 'unknown';
}

/** Whether this bucket stands for samples that differ. */
function spreadAt({ used, allocated, reserved }: Series, at: number): boolean {
  return [used, allocated, reserved].some((band) => band && band.min[at] !== band.max[at]);
}

function bucketRows(series: Series, at: number, hasAllocator: boolean): TraceRow[] {
  const begin = series.seconds[at] ?? 0;
  const next = series.seconds[at + 1];
  const half =
    next === undefined ? (begin - (series.seconds[at - 1] ?? begin)) / 2 : (next - begin) / 2;
  // Without an allocator at the end, the limit is the device's, and all that is used counts.
  const [allocated, reserved] = hasAllocator ? [series.allocated, series.reserved] : [];
  const row = (seconds: number, end: 'min' | 'max'): TraceRow => ({
    seconds,
    deviceUsedBytes: series.used[end][at] ?? 'unknown',
    allocatedBytes: allocated?.[end][at] ?? 'unknown',
    reservedBytes: reserved?.[end][at] ?? 'unknown',
  });
  const first = row(begin, 'min');
  const isKnownRow = [first.deviceUsedBytes, first.reservedBytes, first.allocatedBytes].some(
    isKnown,
  );
  if (!isKnownRow) return [];
  return spreadAt(series, at) && half > 0 ? [first, row(begin + half, 'max')] : [first];
}

/** A recorded series of memory readings, as `replay` and the simulated device take it. */
export interface RecordedTrace {
  /** The most that could be had while it was recorded. */
  readonly capacityBytes: number;
  /** At least one; their times rise. */
  readonly rows: readonly TraceRow[];
  /** Which device of which profile it is, in words; absent where a trace does not say. */
  readonly origin?: string;
}

export interface TraceRow {
  readonly seconds: number;
  /** Live bytes in the caching allocator. */
  readonly allocatedBytes: Known<number>;
  /** Bytes that allocator held from the driver. */
  readonly reservedBytes: Known<number>;
  /** Bytes in use on the whole device. */
  readonly deviceUsedBytes: Known<number>;
}

function badTrace(place: string, what: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-trace',
    fact: `${place} is not a readable trace: ${what}.`,
    next: 'A trace is what "plimsoll profile --output FILE" writes, or {"capacity":BYTES,"columns":["seconds","allocated","reserved","device_used"],"rows":[[0,1,2,3]]}.',
  });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
