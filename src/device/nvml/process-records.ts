import type { Known } from '../../units/known.js';
import { readBytes64 } from './layouts.js';

/**
 * Bytes from one process record to the next. 24 is usual; drivers 535.43 to 535.86 put a fourth
 * figure into the same function's records (32); the oldest functions write 16.
 */
export type RecordStride = 16 | 24 | 32;

export const recordStrides: readonly RecordStride[] = [24, 32, 16];

/** Room for any layout, so that a driver can never write past the end. */
export const largestRecordBytes = 32;

/** The buffer holds this before the call, so that what the driver wrote can be told from the rest. */
export const unwrittenByte = 0xa5;

/** Linux gives no higher process id on any machine (PID_MAX_LIMIT); Windows stays below too. */
const highestPid = 4_194_304;

export interface ProcessRecord {
  readonly pid: number;
  readonly usedBytes: Known<number>;
}

/** Other evidence for a stride that is guessed from the bytes. */
export interface StrideEvidence {
  /** The stride that fits the function that was called, taken when the bytes do not decide. */
  readonly expected: RecordStride;
  /** No process holds more than the device has. */
  readonly totalBytes: Known<number>;
  /** Whether a process with this id is there, as far as we can see. */
  readonly isRunning: (pid: number) => boolean;
}

/**
 * Finds the stride at which `count` records make sense: each has a possible process id, empty
 * padding and no more memory than the device; better still ids of running processes, and records
 * that end where the driver stopped writing.
 *
 * @example
 * probeStride(bytes, 2, { expected: 24, totalBytes: 'unknown', isRunning: () => false }); // 24
 */
export function probeStride(
  bytes: Uint8Array,
  count: number,
  evidence: StrideEvidence,
): RecordStride {
  if (count === 0) return evidence.expected;
  const writtenEnd = endOfWritten(bytes);
  let best: RecordStride = evidence.expected;
  let bestScore = score(bytes, count, best, writtenEnd, evidence);
  if (bestScore >= perfectScore) return best;
  for (const stride of recordStrides) {
    const points = score(bytes, count, stride, writtenEnd, evidence);
    if (points > bestScore) {
      best = stride;
      bestScore = points;
    }
  }
  return best;
}

/** Reads `count` records; those that do not fit into the bytes, or name no process, are left out. */
export function decodeProcessRecords(
  bytes: Uint8Array,
  count: number,
  stride: RecordStride,
): readonly ProcessRecord[] {
  const view = viewOf(bytes);
  const records: ProcessRecord[] = [];
  const fitting = Math.min(count, Math.floor(bytes.length / stride));
  for (let at = 0; at < fitting * stride; at += stride) {
    const pid = view.getUint32(at, true);
    if (pid !== 0) records.push({ pid, usedBytes: readBytes64(view, at + 8) });
  }
  return records;
}

/** The `score` of records that make sense in every respect. */
const perfectScore = 8;

/** Sense made per record (0 to 6), so that lists of any length compare; 2 more for a true end. */
function score(
  bytes: Uint8Array,
  count: number,
  stride: RecordStride,
  writtenEnd: number,
  evidence: StrideEvidence,
): number {
  if (count * stride > bytes.length) return -1;
  const view = viewOf(bytes);
  let points = 0;
  for (let index = 0; index < count; index += 1) {
    const at = index * stride;
    const pid = view.getUint32(at, true);
    if (pid > 0 && pid <= highestPid) points += 2;
    if (pid > 0 && evidence.isRunning(pid)) points += 1;
    if (isPadding(view.getUint32(at + 4, true))) points += 1;
    if (isPlausibleSize(view, at + 8, evidence.totalBytes)) points += 2;
  }
  // A record ends with a figure, but the last bytes of that figure may by chance look unwritten.
  const missing = count * stride - writtenEnd;
  return points / count + (missing >= 0 && missing < 4 ? 2 : 0);
}

function isPlausibleSize(view: DataView, offset: number, totalBytes: Known<number>): boolean {
  const size = readBytes64(view, offset);
  if (size === 'unknown') {
    // Only all ones says "not available"; any other huge number is a sign of reading askew.
    return (
      view.getUint32(offset, true) === 0xffff_ffff &&
      view.getUint32(offset + 4, true) === 0xffff_ffff
    );
  }
  return totalBytes === 'unknown' || size <= totalBytes;
}

function isPadding(word: number): boolean {
  return word === 0 || word === unwrittenByte * 0x0101_0101;
}

function endOfWritten(bytes: Uint8Array): number {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === unwrittenByte) end -= 1;
  return end;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
