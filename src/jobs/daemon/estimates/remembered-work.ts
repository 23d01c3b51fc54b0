import { SharedWork } from './shared-work.js';

export interface Work<T> {
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
