import { closeSync, openSync, readdirSync, readSync } from 'node:fs';

/**
 * Files under /proc and /sys are made by the kernel while they are read: short, without a true
 * size, and quicker to read here and now than through the thread pool.
 */

/** Enough for every file we read but mountinfo; a longer one is cut, never loaded whole. */
const usualLimitBytes = 64 * 1024;

let scratch = Buffer.allocUnsafeSlow(usualLimitBytes);

/** The text of a kernel file, or undefined when it is not there or may not be read. */
export function readKernelFile(path: string, limitBytes = usualLimitBytes): string | undefined {
  return readKernelBytes(path, limitBytes)?.toString('utf8');
}

/** Like `readKernelFile`; the bytes are only good until the next call. */
export function readKernelBytes(path: string, limitBytes = usualLimitBytes): Buffer | undefined {
  if (scratch.length < limitBytes) scratch = Buffer.allocUnsafeSlow(limitBytes);
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch {
    return undefined;
  }
  try {
    let filled = 0;
    // A kernel file may come in pieces: only a read of nothing is its end.
    while (filled < limitBytes) {
      const got = readSync(fd, scratch, filled, limitBytes - filled, null);
      if (got === 0) break;
      filled += got;
    }
    return scratch.subarray(0, filled);
  } catch {
    return undefined;
  } finally {
    closeSync(fd);
  }
}

/** A file that holds one whole number, as most of /sys does. */
export function readKernelNumber(path: string): number | undefined {
  const text = readKernelFile(path)?.trim();
  if (text === undefined || !/^\d+$/.test(text)) return undefined;
  return Number(text);
}

/** Names in a folder, sorted; empty when it is not there or may not be read. */
export function listKernelFolder(path: string): readonly string[] {
  try {
    return readdirSync(path).toSorted();
  } catch {
    return [];
  }
}

/** The numbered folders of /proc: one for each process that can be seen. */
export function listPids(procRoot: string): readonly number[] {
  const pids: number[] = [];
  for (const name of listKernelFolder(procRoot)) {
    if (/^[1-9]\d*$/.test(name)) pids.push(Number(name));
  }
  return pids;
}

/** Roots of the machine's own files; tests pass in folders they made. */
export interface Roots {
  readonly proc: string;
  readonly sys: string;
  readonly dev: string;
}

export const machineRoots: Roots = { proc: '/proc', sys: '/sys', dev: '/dev' };
