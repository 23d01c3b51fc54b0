import { spawn } from 'node:child_process';
import { readKernelFile } from '../../device/kernel-files.js';
import { readProcess } from '../processes/process-table.js';
import { shell, waitScript } from './keeper-scripts.js';

/**
 * Tells whether a signal came to us alone (then it is forwarded), or to our whole group, as Ctrl-C
 * does (then the job has it already, and must not get it twice). The canary is a process in our
 * group that any signal ends.
 */
export interface Canary {
  /** Whether the canary, too, got this signal just now. */
  heard(signal: NodeJS.Signals): Promise<boolean>;
  /** Whether it was stopped just now, as Ctrl-Z does to a whole group. */
  isStopped(): Promise<boolean>;
  release(): void;
}

/** A signal to a group reaches all of it at once; the news of it takes a busy machine longer. */
const newsMs = 400;
const lookMs = 10;
/** PF_EXITING of the kernel. */
const exitingFlag = 4;

export function startCanary(): Canary {
  let released = false;
  let child = start();
  let died: { signal: NodeJS.Signals | null; atMs: number } | undefined;
  const waiting = new Set<() => void>();

  function start() {
    // It reads what never comes, and ends when we do, however we end.
    const canary = spawn(shell, ['-c', waitScript], { stdio: ['pipe', 'ignore', 'ignore'] });
    canary.stdin.on('error', () => {});
    canary.once('error', () => {});
    canary.once('exit', (_, signal) => {
      died = { signal, atMs: performance.now() };
      for (const wake of waiting) wake();
      if (!released) child = start();
    });
    return canary;
  }
  return {
    async heard(signal) {
      const fromMs = performance.now() - newsMs;
      let deadline = performance.now() + newsMs;
      while (true) {
        // Between a signal that waits and an end there is a moment in which neither shows.
        if (isEnding(child.pid)) deadline = performance.now() + newsMs;
        else if (performance.now() >= deadline) break;
        if (died !== undefined && died.signal === signal && died.atMs >= fromMs) return true;
        await new Promise<void>((resolve) => {
          const wake = () => {
            clearTimeout(timer);
            waiting.delete(wake);
            resolve();
          };
          const timer = setTimeout(wake, lookMs);
          waiting.add(wake);
        });
      }
      return died !== undefined && died.signal === signal && died.atMs >= fromMs;
    },
    async isStopped() {
      const deadline = performance.now() + newsMs;
      while (performance.now() < deadline) {
        if (child.pid !== undefined && readProcess('/proc', child.pid)?.state === 'T') return true;
        await new Promise((resolve) => setTimeout(resolve, lookMs));
      }
      return false;
    },
    release() {
      released = true;
      child.stdin.end();
    },
  };
}

/** A signal waits for the kernel to get to it, it ends, or it has ended and we have not heard of that yet. */
function isEnding(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  const status = readKernelFile(`/proc/${pid}/status`) ?? '';
  if (/^(State:\s+[ZX]|S(ig|hd)Pnd:\s+0*[1-9a-f])/m.test(status)) return true;
  // The flags are the seventh field after the name, which may hold anything.
  const flags = readKernelFile(`/proc/${pid}/stat`)?.split(') ').at(-1)?.split(' ')[6];
  return (Number(flags) & exitingFlag) !== 0;
}
