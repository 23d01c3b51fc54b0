import { statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { type DroppedPart, readDropped } from './log-limit.js';

export interface LogPart {
  readonly bytes: Uint8Array;
  /** Of all that was ever written. */
  readonly size: number;
  /** The place to read on. */
  readonly next: number;
  /** Missing before the first of the bytes. */
  readonly dropped: DroppedPart | undefined;
}

/** A log that loses what is being read, so often in a row, is not read any faster. */
const tries = 3;

/**
 * Reads a log from a place on, at most so many bytes. A place counts all bytes ever written: it
 * stays the same when older parts are dropped. If a part is missing, the answer names it and
 * continues after it.
 *
 * @example
 * const { bytes, next } = await readLogPart('log', 0, 1024);
 */
export async function readLogPart(path: string, from: number, most: number): Promise<LogPart> {
  for (let left = tries; ; left--) {
    const dropped = readDropped(path);
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    const missing = isWithin(from, dropped) ? dropped : undefined;
    const start = missing?.to ?? from;
    const length = Math.min(most, endBefore(start, size, dropped) - start);
    if (most <= 0 || (length <= 0 && missing === undefined)) {
      return { bytes: new Uint8Array(), size, next: from, dropped: undefined };
    }
    const isLast = left === 0;
    const bytes = isLast ? new Uint8Array() : await readBytes(path, start, length);
    // Once more, after the bytes: what is dropped is written down before it goes, so that where this
    // does not name them they are no zeros of a part that went meanwhile.
    const after = isLast ? dropped : readDropped(path);
    if (isWithin(start, after)) continue;
    const whole = bytes.subarray(0, endBefore(start, size, after) - start);
    return { bytes: whole, size, next: start + whole.length, dropped: missing };
  }
}

function isWithin(at: number, dropped: DroppedPart | undefined): boolean {
  return dropped !== undefined && at >= dropped.from && at < dropped.to;
}

/** Returns the end of readable text from a place on: the missing part, or the end of the log. */
function endBefore(start: number, size: number, dropped: DroppedPart | undefined): number {
  return dropped !== undefined && start < dropped.from ? Math.min(size, dropped.from) : size;
}

async function readBytes(path: string, start: number, length: number): Promise<Uint8Array> {
  if (length <= 0) return new Uint8Array();
  const file = await open(path, 'r');
  try {
    const bytes = new Uint8Array(length);
    const { bytesRead } = await file.read(bytes, 0, length, start);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
