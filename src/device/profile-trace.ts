import { Failure } from '../failure.js';
import { isKnown, type Known } from '../units/known.js';

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
export function isProfileReport(parsed: Json): boolean {
  return parsed['capacity'] === undefined && isRecord(parsed['devices']);
}

/**
 * The series of one device of a profile as a trace. A short profile holds every sample. In a long
 * one a bucket of time stands for several: its minimum comes first, its maximum half a bucket
 * later, so that floors and peaks both survive.
 */
export function traceOfProfile(report: Json, place: string, wanted?: string): RecordedTrace {
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
  /** What that allocator held from the driver. */
  readonly reservedBytes: Known<number>;
  /** What the whole device had in use. */
  readonly deviceUsedBytes: Known<number>;
}

export function badTrace(place: string, what: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-trace',
    fact: `${place} is not a readable trace: ${what}.`,
    next: 'A trace is what "plimsoll profile --output FILE" writes, or {"capacity":BYTES,"columns":["seconds","allocated","reserved","device_used"],"rows":[[0,1,2,3]]}.',
  });
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
