import { Failure } from '../../../failure.js';

/**
 * Work that several wait for. One who no longer wants it leaves the others alone; when the last one
 * has left, the work is told to end.
 *
 * @example
 * const trace = new SharedWork((signal) => tracing(model, signal));
 * await Promise.all([trace.join(first), trace.join(second)]);
 */
export class SharedWork<T> {
  /** How it ends; who only looks at it does not count as one who waits. */
  readonly end: Promise<T>;
  readonly #stop = new AbortController();
  #waiting = 0;

  constructor(make: (signal: AbortSignal) => Promise<T>) {
    this.end = make(this.#stop.signal);
  }

  /** No caller waits any more, and it is on its way to its end: there is nothing to join. */
  get isGivenUp(): boolean {
    return this.#stop.signal.aborted;
  }

  join(signal: AbortSignal): Promise<T> {
    this.#waiting += 1;
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting -= 1;
        // The last one sees it to its end: what it started must not outlive who asked for it.
        if (this.#waiting === 0) this.#stop.abort(signal.reason);
        else reject(interrupted());
      };
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
      const over = () => signal.removeEventListener('abort', leave);
      this.end.then(resolve, reject).finally(over);
    });
  }
}

function interrupted(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'interrupted',
    fact: 'The estimate was interrupted.',
    next: 'Ask for it again.',
  });
}
