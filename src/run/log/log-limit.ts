import { appendFileSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { MiB } from '../../units/bytes.js';
import type { KernelPipes } from '../launch/libc.js';

/** How much of a log stays on the disk. */
export interface LogLimit {
  /** In all. */
  readonly bytes: number;
  /** From its beginning: versions, settings, what the program says of itself. The rest is the newest. */
  readonly firstBytes: number;
}

/**
 * Of a job's log. A week of training at ten lines a second takes some 500 MiB, of which people read
 * the beginning and the last hours; a program that prints without end fills a disk in minutes.
 */
export const jobLogLimit: LogLimit = { bytes: 256 * MiB, firstBytes: 16 * MiB };

/**
 * Of what a job printed since its supervisor was killed, kept a second time for the next one: it looks
 * there for an out-of-memory, which stands at the end.
 */
export const lateLogLimit: LogLimit = { bytes: 16 * MiB, firstBytes: 0 };

/** A part that is no longer there: from a byte up to another, which is there. */
export interface DroppedPart {
  readonly from: number;
  readonly to: number;
}

/** Dropped at once, as a share of the limit: it costs two writes to the disk each time. */
const stepShare = 1 / 16;

/** Returns the part to drop from a log of so many bytes; undefined if all may stay. */
export function partToDrop(
  size: number,
  dropped: DroppedPart | undefined,
  limit: LogLimit,
): DroppedPart | undefined {
  const gone = dropped === undefined ? 0 : dropped.to - dropped.from;
  if (size - gone <= limit.bytes) return undefined;
  const newest = limit.bytes - limit.firstBytes - Math.floor(limit.bytes * stepShare);
  return { from: dropped?.from ?? limit.firstBytes, to: size - Math.max(0, newest) };
}

/** Each holds the lock for one write: after so long its holder is stopped, and is not waited for. */
const tries = 100;
const pauseMs = 1;
const pause = new Int32Array(new SharedArrayBuffer(4));

/** Takes the lock of a log, or gives up after a moment. */
export function lockLog(pipes: Pick<KernelPipes, 'tryLock'>, fd: number): void {
  for (let left = tries; left > 0 && !pipes.tryLock(fd); left--) Atomics.wait(pause, 0, 0, pauseMs);
}

/**
 * Adds a line to a log into which a supervisor moves the output of a program. Without the lock the two
 * could write to the same place.
 */
export function addToLog(pipes: KernelPipes | undefined, path: string, text: string): void {
  const fd = openSync(path, 'a', 0o600);
  try {
    if (pipes !== undefined) lockLog(pipes, fd);
    // Closing the file gives up the lock.
    appendFileSync(fd, text);
  } finally {
    closeSync(fd);
  }
}

/** Enough for every place in a file that a number of ours can name. */
const digits = 16;
const form = /^(\d{16}) (\d{16}) (\d{16})\n$/;
const recordBytes = 3 * (digits + 1);
/** A read during a write may see halves of two. */
const looks = 3;

/** Holds the place of a record in a log of which nothing is missing yet. */
export const nothing: DroppedPart = { from: 0, to: 0 };

/** Returns the path of the record of a log's missing part. */
export function droppedRecordPath(log: string): string {
  return `${log}.dropped`;
}

/** With its check: half of one and half of another do not add up. */
export function formatDropped({ from, to }: DroppedPart): string {
  return `${[from, to, from + to].map((at) => String(at).padStart(digits, '0')).join(' ')}\n`;
}

export function parseDropped(text: string): DroppedPart | undefined {
  const [from = 0, to = 0, check] = form.exec(text)?.slice(1).map(Number) ?? [];
  return check === from + to && from < to && Number.isSafeInteger(check) ? { from, to } : undefined;
}

/**
 * Reads the record of a log's missing part; undefined if nothing is missing. A record beyond the
 * end belongs to an earlier log: a person emptied the file by hand.
 */
export function readDropped(log: string): DroppedPart | undefined {
  for (let look = 0; look < looks; look++) {
    const text = readRecord(log);
    if (text === undefined) return undefined;
    const dropped = parseDropped(text);
    if (dropped === undefined) continue;
    // After the record: a log that grows is never shorter than what was dropped of it.
    const size = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
    return dropped.to <= size ? dropped : undefined;
  }
  return undefined;
}

function readRecord(log: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(droppedRecordPath(log), 'r');
  } catch {
    return undefined;
  }
  try {
    const buffer = Buffer.alloc(recordBytes);
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, recordBytes, 0));
  } finally {
    closeSync(fd);
  }
}

/**
 * On the disk when it resolves. Always of one length and in the same place: a disk that is full has
 * room for it, and a process that is killed has written all of it or nothing.
 */
export async function writeDropped(log: string, dropped: DroppedPart): Promise<void> {
  const { O_WRONLY, O_CREAT } = constants;
  const file = await open(droppedRecordPath(log), O_WRONLY | O_CREAT, 0o600);
  try {
    await file.write(formatDropped(dropped), 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Stands in a log where a part of it is missing. */
export function droppedNote({ from, to }: DroppedPart): string {
  return `plimsoll: ${to - from} bytes of this log were dropped here (${from} to ${to}): its beginning and what is newest are kept.\n`;
}
