import { closeSync, constants, openSync } from 'node:fs';
import { lockLog } from '../log/log-lock.js';
import type { Ends, KernelPipes } from './libc.js';
import type { RawOutput } from './outputs.js';
import { chunkBytes, pump, readSome } from './pump.js';

/**
 * Brings what comes out of a pipe into a log so that a kill at any moment loses nothing and doubles
 * nothing: it is looked at in a copy, and then moved by the kernel, which takes it out of the pipe as it
 * writes it. What was not moved is found in the pipe by the drainer.
 *
 * The kernel moves to a place, not to the end; so everyone who adds to the log takes its lock.
 */
export async function pumpToLog(options: {
  readonly readFd: number;
  readonly log: RawOutput;
  readonly scratch: Ends;
  readonly pipes: KernelPipes;
  /** Shown all of it, before it is in the log. */
  readonly seen: (bytes: Uint8Array) => void;
}): Promise<void> {
  const { readFd, log, scratch, pipes, seen } = options;
  const buffer = Buffer.allocUnsafeSlow(chunkBytes);
  const file = openedAgain(log.fd);
  if (file === undefined) {
    for (const fd of [scratch.readFd, scratch.writeFd]) closeSync(fd);
    return pump(readFd, async (bytes) => {
      seen(bytes);
      await log.write(bytes);
    });
  }
  try {
    for (;;) {
      const count = await pipes.copy(readFd, scratch.writeFd, chunkBytes);
      if (count < 0) throw new Error('tee failed');
      if (count === 0) return;
      await readExactly(scratch.readFd, buffer, count);
      seen(buffer.subarray(0, count));
      await log.noteGap?.();
      const moved = Math.max(0, await moveToEnd(pipes, readFd, file, count));
      log.moved?.(buffer.subarray(0, moved));
      if (moved === count) continue;
      // A full disk, or a file system that cannot: the log decides what becomes of the rest.
      await readExactly(readFd, buffer, count - moved);
      await log.write(buffer.subarray(0, count - moved));
    }
  } finally {
    for (const fd of [readFd, scratch.readFd, scratch.writeFd, file]) closeSync(fd);
  }
}

/** The same file, not open for appending; undefined where it cannot be opened, as a socket. */
function openedAgain(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY);
  } catch {
    return undefined;
  }
}

async function moveToEnd(
  pipes: KernelPipes,
  readFd: number,
  file: number,
  count: number,
): Promise<number> {
  lockLog(pipes, file);
  try {
    return await pipes.moveToEnd(readFd, file, count);
  } finally {
    pipes.unlock(file);
  }
}

/** So much is there. */
async function readExactly(fd: number, buffer: Buffer, count: number): Promise<void> {
  for (let at = 0; at < count; ) {
    const got = await readSome(fd, buffer.subarray(at, count));
    if (got === 0) return;
    at += got;
  }
}
