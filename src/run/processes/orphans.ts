import { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { join } from 'node:path';
import { readKernelFile } from '../../device/kernel-files.js';
import type { Libc } from '../launch/libc.js';
import { type ProcessEntry, readProcesses } from './process-table.js';

/**
 * Processes of a program whose parents have ended. Linux makes them children of the supervisor, so
 * that a daemon which cleared its environment and left its session is still found.
 */
export interface Orphans {
  /** Those in a table of processes. */
  in(table: readonly ProcessEntry[]): readonly number[];
  /**
   * Those that there are now, by a list that is read in microseconds. It is complete, since none leaves
   * it but by `reap`.
   */
  now(): readonly number[];
  /** Takes those that have ended off the list of processes, but not one that is waited for. */
  reap(awaited: number | undefined): void;
}

/** For a process that supervises nothing: orphans are not looked for. */
export const noOrphans: Orphans = { in: () => [], now: () => [], reap() {} };

/**
 * From here on, a child that Node did not start is an orphan. To be called first in a process that does
 * nothing but supervise a run. Nothing is answered where others are among our children: a shell that
 * became us may have left some, and as the first process of a container we get those of everybody.
 */
export function watchOrphans(
  procRoot: string,
  own: number = process.pid,
): (libc: Libc | undefined) => Orphans {
  const isOwnChild = watchOwnChildren();
  const hasOthers = own === 1 || readProcesses(procRoot).some(({ parent }) => parent === own);
  const list = join(procRoot, String(own), 'task', String(own), 'children');
  const now = () =>
    (readKernelFile(list) ?? '')
      .split(' ')
      .map(Number)
      .filter((pid) => pid > 0 && !isOwnChild(pid));
  return (libc) => {
    if (hasOthers || libc === undefined) return noOrphans;
    return {
      in: (table) =>
        table.flatMap(({ pid, parent }) => (parent === own && !isOwnChild(pid) ? pid : [])),
      now,
      reap(awaited) {
        for (const pid of now()) if (pid !== awaited) libc.reap(pid);
      },
    };
  };
}

/**
 * Answers whether a process is a child that Node started from now on, and that has not ended. Node
 * waits for those itself: their exit codes must not be taken by anything else.
 */
function watchOwnChildren(): (pid: number) => boolean {
  const children = new Set<ChildProcess>();
  subscribe('child_process', (message) => {
    const child = message instanceof Object && 'process' in message ? message.process : undefined;
    if (!(child instanceof ChildProcess)) return;
    children.add(child);
    // One that could not be started has no pid, and no exit either.
    child.once('error', () => child.pid === undefined && children.delete(child));
    child.once('exit', () => children.delete(child));
  });
  return (pid) => [...children].some((child) => child.pid === pid);
}
