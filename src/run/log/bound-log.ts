import { statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Clock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import type { Libc } from '../launch/libc.js';
import {
  type DroppedPart,
  type LogLimit,
  nothing,
  partToDrop,
  readDropped,
  writeDropped,
} from './log-limit.js';

/** Between two looks: a fast disk takes half a gigabyte meanwhile, and what is too much goes then. */
const lookSeconds = 0.25;
/** A line is cut in two only where it is longer than this. */
const longestLineBytes = 64 * 1024;
/** So far behind its end no log gets between two calls. */
const farBytes = 2 ** 40;
const newline = 0x0a;

export interface BoundLogOptions {
  readonly path: string;
  readonly limit: LogLimit;
  readonly clock: Clock;
  /** Undefined where it could not be loaded: then the log grows. */
  readonly libc: Pick<Libc, 'punchHole'> | undefined;
  /** Says once that the log cannot be bounded. */
  readonly notify: (line: string) => void;
}

/** A log that is held to its limit. */
export interface BoundLog {
  /** Looks a last time, then no more. */
  release(): Promise<void>;
}

/**
 * Holds a log to its limit, however it is written: what is too much is taken out of the
 * middle of the file, and everything else stays where it is. Writers do not notice, and no place in
 * the log changes. One process at a time may do so for a log: the run's supervisor.
 *
 * @example
 * const bound = boundLog({ path, limit: jobLogLimit, clock, libc, notify: console.error });
 * await bound.release();
 */
export function boundLog(options: BoundLogOptions): BoundLog {
  const { clock } = options;
  const over = new AbortController();
  const look = looker(options);
  const looking = (async () => {
    for (;;) {
      // Before the look: the last one is to see all that was written until the release.
      const isLast = over.signal.aborted;
      await look();
      if (isLast) return;
      await clock.waitUntil(clock.seconds() + lookSeconds, over.signal);
    }
  })();
  return {
    async release() {
      over.abort();
      await looking;
    },
  };
}

/** Looks once, and drops what is too much. A disk that is full or fails is tried again next time. */
function looker({ path, limit, libc, notify }: BoundLogOptions): () => Promise<void> {
  /** The part known to be off the disk: the earlier process may have died between record and deletion. */
  let gone: DroppedPart | undefined;
  let sizeBefore = 0;
  let hasRoom = false;
  let isPossible: boolean | undefined;

  async function look(): Promise<void> {
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    // Emptied by hand: what was missing before is no part of this log.
    if (size < sizeBefore) await writeDropped(path, nothing);
    sizeBefore = size;
    if (size <= limit.firstBytes || isPossible === false) return;
    const dropped = readDropped(path);
    // Taken long before it is needed: by then the disk may be full.
    if (!hasRoom && dropped === undefined) await writeDropped(path, nothing);
    hasRoom = true;
    const toDrop = partToDrop(size, dropped, limit);
    if (toDrop !== undefined || dropped?.to !== gone?.to) await drop(size, dropped, toDrop);
  }

  async function drop(
    size: number,
    before: DroppedPart | undefined,
    toDrop: DroppedPart | undefined,
  ): Promise<void> {
    const file = await open(path, 'r+');
    try {
      // Where nothing can be. One that says it is dropped must be able to drop it.
      isPossible ??= (await libc?.punchHole(file.fd, size + farBytes, 1)) === true;
      if (!isPossible) {
        notify(cannotWords(limit));
        return;
      }
      const part = toDrop === undefined ? before : await atLines(file, toDrop, before);
      if (part === undefined) return;
      if (part !== before) await writeDropped(path, part);
      // All of it, also what went before: it costs nothing, and leaves nothing out.
      if (await libc?.punchHole(file.fd, part.from, part.to - part.from)) gone = part;
    } finally {
      await file.close();
    }
  }

  return async () => {
    try {
      await look();
    } catch {
      // The log was taken away, or there is no room for a word about it: the next look may do better.
    }
  };
}

/** Moved so that whole lines stay; where it begins does not change any more once it is told. */
async function atLines(
  file: FileHandle,
  { from, to }: DroppedPart,
  before: DroppedPart | undefined,
): Promise<DroppedPart> {
  const ahead = await readAt(file, to, longestLineBytes);
  const end = to + ahead.indexOf(newline) + 1;
  if (before !== undefined) return { from, to: end };
  const start = Math.max(0, from - longestLineBytes);
  const behind = await readAt(file, start, from - start);
  const lineEnd = behind.lastIndexOf(newline);
  return { from: lineEnd === -1 ? from : start + lineEnd + 1, to: end };
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at);
  return buffer.subarray(0, bytesRead);
}

function cannotWords({ bytes }: LogLimit): string {
  return `plimsoll: this log has passed ${formatBytes(bytes)} and cannot be shortened, as this file system or C library cannot take a part out of a file: it goes on growing. Let the program print less, or keep PLIMSOLL_HOME on ext4, xfs or btrfs.`;
}
