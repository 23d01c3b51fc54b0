import { appendFileSync, closeSync, openSync } from 'node:fs';
import type { KernelPipes } from '../launch/libc.js';

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
