import { appendFileSync, closeSync, openSync } from 'node:fs';
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

/** What has to go from a log of so many bytes; undefined where all may stay. */
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
