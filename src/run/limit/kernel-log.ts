import { closeSync, constants, openSync, readSync } from 'node:fs';

/** One record of the kernel's log has at most 1 KiB; the log itself some MiB. */
const recordBytes = 8192;
const maxRecords = 20_000;

/**
 * The processes that the kernel's log says it killed for want of memory; `unknown` where the log
 * may not be read, as is usual for people who are not root.
 */
export function killedByKernel(path = '/dev/kmsg'): ReadonlySet<number> | 'unknown' {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return 'unknown';
  }
  const pids = new Set<number>();
  const buffer = Buffer.allocUnsafe(recordBytes);
  try {
    for (let record = 0; record < maxRecords; record++) {
      const count = readSync(fd, buffer, 0, buffer.length, null);
      if (count === 0) break;
      for (const pid of killedIn(buffer.toString('utf8', 0, count))) pids.add(pid);
    }
  } catch {
    // EAGAIN is its end; EPIPE means that the oldest records were lost while we read.
  } finally {
    closeSync(fd);
  }
  return pids;
}

/**
 * The pids in a text of the kernel's log.
 *
 * @example
 * killedIn('Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB'); // [4711]
 */
export function killedIn(text: string): readonly number[] {
  return [
    ...text.matchAll(/[Oo]ut of memory(?: \([^)]{1,60}\))?: Kill(?:ed)? process (\d{1,10})/g),
  ].map((match) => Number(match[1]));
}
