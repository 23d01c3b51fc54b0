import { MiB } from '../../units/bytes.js';

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
