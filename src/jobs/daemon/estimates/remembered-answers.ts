import { Failure } from '../../../failure.js';

/** An estimate takes a few kilobytes, a plan some tens. */
const maxAnswers = 256;

export interface AskedAnswer<T> {
  /** Returns the current key of the files that the answer depends on; undefined if they are not known. */
  readonly key: () => Promise<string | undefined>;
  readonly make: (signal: AbortSignal) => Promise<T>;
}

/**
 * Makes estimates or plans, and the same one only once while nothing that it depends on changes.
 *
 * @example
 * const estimates = rememberedAnswers<Estimate>(({ method }) => method === 'trace');
 * await estimates({ key, make: (signal) => answerEstimate(request, { ...machine, signal }) }, signal);
 */
export function rememberedAnswers<T>(
  /** An answer without a trace is not remembered, because the next trace may succeed. */
  wasTraced: (answer: T) => boolean,
): (asked: AskedAnswer<T>, signal: AbortSignal) => Promise<T> {
  const memory = new RememberedWork<T>(maxAnswers);
  return async (asked, signal) => {
    const key = await asked.key();
    if (key === undefined) return asked.make(signal);
    // Where something changed meanwhile, it is unknown whether it was read before that or after.
    const keeps = async (answer: T) => wasTraced(answer) && (await asked.key()) === key;
    return memory.ask({ key, make: asked.make, keeps }, signal);
  };
}

interface Work<T> {
  /** Names what is done and all that its answer depends on. */
  readonly key: string;
  /** Called by the first who asks; the signal is aborted when no caller waits any more. */
  readonly make: (signal: AbortSignal) => Promise<T>;
  /** Whether those who come later may have the same answer. */
  readonly keeps: (answer: T) => Promise<boolean>;
}

/**
 * The answers of the last so many pieces of work. Who asks for one that is being made waits for
 * that; one that failed is not remembered. Of too many, the one goes that was not asked for longest.
 *
 * @example
 * const estimates = new RememberedWork<Estimate>(256);
 * await estimates.ask({ key, make: (signal) => trace(model, signal), keeps: async () => true }, signal);
 */
export class RememberedWork<T> {
  readonly #most: number;
  /** In the order of their last use. */
  readonly #answers = new Map<string, { readonly answer: T }>();
  readonly #inProgress = new Map<string, SharedWork<T>>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#answers.size;
  }

  async ask(work: Work<T>, signal: AbortSignal): Promise<T> {
    const known = this.#answers.get(work.key);
    if (known !== undefined) {
      this.#remember(work.key, known.answer);
      return known.answer;
    }
    const found = this.#inProgress.get(work.key);
    const shared = found === undefined || found.isGivenUp ? this.#begin(work) : found;
    return await shared.join(signal);
  }

  #begin(work: Work<T>): SharedWork<T> {
    const shared = new SharedWork(work.make);
    this.#inProgress.set(work.key, shared);
    void this.#finish(work, shared);
    return shared;
  }

  async #finish({ key, keeps }: Work<T>, shared: SharedWork<T>): Promise<void> {
    try {
      const answer = await shared.end;
      if (await keeps(answer)) this.#remember(key, answer);
    } catch {
      // Those who wait are told by their own promise.
    }
    // Given up, another may have taken its place.
    if (this.#inProgress.get(key) === shared) this.#inProgress.delete(key);
  }

  #remember(key: string, answer: T): void {
    this.#answers.delete(key);
    this.#answers.set(key, { answer });
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > this.#most && oldest !== undefined) this.#answers.delete(oldest);
  }
}

/**
 * Work that several wait for. One who no longer wants it leaves the others alone; when the last one
 * has left, the work is told to end.
 *
 * @example
 * const trace = new SharedWork((signal) => tracing(model, signal));
 * await Promise.all([trace.join(first), trace.join(second)]);
 */
class SharedWork<T> {
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
