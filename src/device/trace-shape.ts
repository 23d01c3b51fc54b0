import { Failure } from '../failure.js';
import type { Known } from '../units/known.js';

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
