/** Exit codes as a shell gives them: 128 and the number of the signal. */
const signalExitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
type StopSignal = keyof typeof signalExitCodes;

/** What signals are read from; `process` is one. */
export interface SignalSource {
  on(signal: StopSignal, listener: () => void): unknown;
  off(signal: StopSignal, listener: () => void): unknown;
}

/** The one thing that ends watching early. */
export interface Stop {
  /** Aborts when watching should end. */
  readonly signal: AbortSignal;
  /** The exit code of the signal that ended it; undefined when none did. */
  readonly interruptedBy: number | undefined;
  /** Ends it as `signal` would (Ctrl-C read as a key), or quietly (q, a reader that left). */
  stop(signal?: StopSignal): void;
  /** Signals have their usual effect again. */
  [Symbol.dispose](): void;
}

/**
 * Ends watching on SIGINT, SIGTERM or SIGHUP, or when one of `also` aborts. The first signal asks
 * for an orderly end; after it signals have their usual effect, so a second Ctrl-C ends us at once.
 */
export function stopOnSignals(
  also: readonly AbortSignal[] = [],
  source: SignalSource = process,
): Stop {
  const controller = new AbortController();
  let interruptedBy: number | undefined;
  const listeners = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).map(
    (name) => [name, () => stop(name)] as const,
  );
  const dispose = () => {
    for (const [name, listener] of listeners) source.off(name, listener);
  };
  const stop = (signal?: StopSignal) => {
    if (controller.signal.aborted) return;
    if (signal !== undefined) interruptedBy = signalExitCodes[signal];
    dispose();
    controller.abort();
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
