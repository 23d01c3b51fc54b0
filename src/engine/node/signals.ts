import type { ChildProcess } from 'node:child_process';

/** Requests to end that reach this process. */
export interface Signals {
  readonly wasAsked: boolean;
  forwardTo(child: ChildProcess): void;
  release(): void;
}

/** A cluster signals all processes of a job; ours waits for its supervisor to end the program. */
export function heedSignals(): Signals {
  let wasAsked = false;
  let current: ChildProcess | undefined;
  const heed = () => {
    wasAsked = true;
    current?.kill('SIGTERM');
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, heed);
  return {
    get wasAsked() {
      return wasAsked;
    },
    forwardTo(child) {
      current = child;
      if (wasAsked) child.kill('SIGTERM');
    },
    release() {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.off(signal, heed);
    },
  };
}
