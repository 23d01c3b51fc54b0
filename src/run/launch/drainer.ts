import { type ChildProcess, spawn } from 'node:child_process';
import { drainerScript, shell } from './keeper-scripts.js';

/** Stands by to take over the job's output if we are killed. */
export interface Drainer {
  readonly pid: number | undefined;
  /** No longer needed. */
  release(): void;
}

/** One that is itself killed is replaced, so that the job is never without. */
export function startDrainer(options: {
  readonly readFd: number;
  readonly outFd: number;
  readonly logPath: string;
}): Drainer {
  let released = false;
  let child: ChildProcess;
  const start = () => {
    child = spawn(shell, ['-c', drainerScript, 'plimsoll-drainer', options.logPath], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', options.readFd, options.outFd],
    });
    // It ends with us: a line that is cut at its end is no error.
    child.stdio[3]?.on('error', () => {});
    child.once('error', () => {});
    child.once('exit', () => {
      if (!released) start();
    });
    child.unref();
  };
  start();
  return {
    get pid() {
      return child.pid;
    },
    release() {
      if (released) return;
      released = true;
      const line = child.stdio[3];
      if (line && 'end' in line) line.end('done\n');
    },
  };
}
