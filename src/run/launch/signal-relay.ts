import type { Canary } from './canary.js';

/** Those that ask a program to end. */
const stopping = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/** Those that programs give a meaning of their own. */
const passing = ['SIGUSR1', 'SIGUSR2'] as const;

/** So often must one ask before the job is killed instead of asked. */
const patience = 3;
/** One Ctrl-C can reach us twice, from the terminal and from a parent that passes it on. */
const sameMs = 300;

/** A source of signals; `process` is one. */
export interface SignalSource {
  readonly pid: number;
  on(signal: NodeJS.Signals, listener: () => void): unknown;
  off(signal: NodeJS.Signals, listener: () => void): unknown;
  kill(pid: number, signal: NodeJS.Signals): unknown;
}

export interface SignalRelay {
  /** The first signal that asked us to end. */
  readonly stoppedBy: NodeJS.Signals | undefined;
  release(): void;
}

/**
 * Hands signals that come to us alone on to the job. One that reached the whole group, as Ctrl-C
 * does, the job has already.
 */
export function relaySignals(options: {
  readonly source: SignalSource;
  readonly canary: Canary;
  /** Sends to the job, when there is one. */
  readonly forward: (signal: NodeJS.Signals) => void;
  readonly onStop: (signal: NodeJS.Signals) => void;
  /** Somebody asked often enough. */
  readonly onImpatient: () => void;
  readonly onResize: () => void;
  readonly nowMs?: () => number;
}): SignalRelay {
  const { source, canary, forward } = options;
  const nowMs = options.nowMs ?? (() => performance.now());
  let stoppedBy: NodeJS.Signals | undefined;
  let asked = 0;
  let askedMs = Number.NEGATIVE_INFINITY;
  const pass = async (signal: NodeJS.Signals) => {
    if (!(await canary.heard(signal))) forward(signal);
  };
  let isKilling = false;
  /** Once for all that wait: to look for what to kill may take longer than the next signal takes to come. */
  const kill = () => {
    if (isKilling) return;
    isKilling = true;
    setImmediate(() => {
      isKilling = false;
      options.onImpatient();
    });
  };
  const stop = (signal: NodeJS.Signals) => {
    if (nowMs() - askedMs >= sameMs) asked++;
    askedMs = nowMs();
    if (stoppedBy === undefined) {
      stoppedBy = signal;
      options.onStop(signal);
    }
    if (asked >= patience) kill();
    else void pass(signal);
  };
  const suspend = async () => {
    const together = await canary.isStopped();
    if (!together) forward('SIGTSTP');
    // Stopped for good until the shell lets us go on; the job goes on when we do.
    const resume = () => {
      source.off('SIGCONT', resume);
      if (!together) forward('SIGCONT');
      options.onResize();
    };
    source.on('SIGCONT', resume);
    source.kill(source.pid, 'SIGSTOP');
  };
  const listeners: (readonly [NodeJS.Signals, () => void])[] = [
    ...stopping.map((signal) => [signal, () => stop(signal)] as const),
    ...passing.map((signal) => [signal, () => void pass(signal)] as const),
    ['SIGTSTP', () => void suspend()],
    ['SIGWINCH', options.onResize],
  ];
  for (const [signal, listener] of listeners) source.on(signal, listener);
  return {
    get stoppedBy() {
      return stoppedBy;
    },
    release() {
      for (const [signal, listener] of listeners) source.off(signal, listener);
    },
  };
}
