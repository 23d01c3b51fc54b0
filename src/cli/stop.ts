/** Exit codes as a shell gives them: 128 and the number of the signal. */
const signalExitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
type StopSignal = keyof typeof signalExitCodes;

/**
 * One Ctrl-C can arrive twice, from the terminal and from a parent that passes it on (npm does);
 * only one that comes later is a person who will not wait.
 */
const impatientAfterMs = 1000;

/** A source of signals; `process` is one. */
export interface SignalSource {
  readonly pid: number;
  on(signal: StopSignal, listener: () => void): unknown;
  off(signal: StopSignal, listener: () => void): unknown;
  kill(pid: number, signal: StopSignal): unknown;
}

/** The one thing that ends watching early. */
export interface Stop {
  /** Aborts when watching should end. */
  readonly signal: AbortSignal;
  /** The exit code of the signal that ended it; undefined when none did. */
  readonly interruptedBy: number | undefined;
  /** Ends it as a signal would (Ctrl-C read as a key), or quietly (q, a reader that left). */
  stop(signal?: StopSignal): void;
  /** Signals have their usual effect again. */
  [Symbol.dispose](): void;
}

/**
 * Ends watching on SIGINT, SIGTERM or SIGHUP, or when one of `also` aborts. The first signal asks
 * for an orderly end, in which files are still written; a later one ends the process at once.
 */
export function stopOnSignals(
  also: readonly AbortSignal[] = [],
  source: SignalSource = process,
  nowMs: () => number = () => performance.now(),
): Stop {
  const controller = new AbortController();
  let interruptedBy: number | undefined;
  let stoppedMs = 0;
  const stop = (signal?: StopSignal) => {
    if (controller.signal.aborted) return;
    if (signal !== undefined) interruptedBy = signalExitCodes[signal];
    stoppedMs = nowMs();
    controller.abort();
  };
  const listeners = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).map((name) => {
    const listener = () => {
      if (!controller.signal.aborted) stop(name);
      else if (nowMs() - stoppedMs >= impatientAfterMs) {
        dispose();
        source.kill(source.pid, name);
      }
    };
    return [name, listener] as const;
  });
  const dispose = () => {
    for (const [name, listener] of listeners) source.off(name, listener);
  };
  for (const [name, listener] of listeners) source.on(name, listener);
  for (const other of also) {
    if (other.aborted) stop();
    else other.addEventListener('abort', () => stop(), { once: true });
  }
  return {
    signal: controller.signal,
    get interruptedBy() {
      return interruptedBy;
    },
    stop,
    [Symbol.dispose]: dispose,
  };
}

/** Until somebody ends it. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
