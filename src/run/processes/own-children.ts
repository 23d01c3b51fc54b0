import { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';

/**
 * Answers whether a process is a child that Node started from now on, and that has not ended. Node
 * waits for those itself: their exit codes must not be taken by anything else.
 */
export function watchOwnChildren(): (pid: number) => boolean {
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
