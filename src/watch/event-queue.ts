import type { WatchEvent } from './types.js';

type SampleEvent = Extract<WatchEvent, { type: 'sample' }>;

/**
 * Between the watching and a consumer that may be slow. Of the samples only the newest `limit`
 * are kept, the oldest go first; every other event waits until it is taken. While no reader has
 * begun to take events no reader can miss them, and the limit holds for all.
 */
export class EventQueue {
  readonly #limit: number;
  readonly #samples: { readonly order: number; readonly event: SampleEvent }[] = [];
  readonly #others: { readonly order: number; readonly event: WatchEvent }[] = [];
  readonly #takers: {
    readonly resolve: (result: IteratorResult<WatchEvent, undefined>) => void;
    readonly reject: (error: unknown) => void;
  }[] = [];
  #order = 0;
  #consumed = false;
  #end: { readonly error?: unknown } | undefined;
  #dropped = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Samples that were given up because the consumer was slow. */
  get droppedSamples(): number {
    return this.#dropped;
  }

  push(event: WatchEvent): void {
    if (this.#end) return;
    const taker = this.#takers.shift();
    if (taker) {
      taker.resolve({ done: false, value: event });
      return;
    }
    const order = this.#order++;
    if (event.type === 'sample') {
      this.#samples.push({ order, event });
      if (this.#samples.length > this.#limit) {
        this.#samples.shift();
        this.#dropped++;
      }
    } else {
      this.#others.push({ order, event });
      if (!this.#consumed && this.#others.length > this.#limit) this.#others.shift();
    }
  }

  /** The next event, when there is one; done after the last; rejects once if it ended badly. */
  take(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.#consumed = true;
    const sample = this.#samples[0];
    const other = this.#others[0];
    const oldest = sample && (!other || sample.order < other.order) ? this.#samples : this.#others;
    const next = oldest.shift();
    if (next) return Promise.resolve({ done: false, value: next.event });
    if (!this.#end) {
      return new Promise((resolve, reject) => {
        this.#takers.push({ resolve, reject });
      });
    }
    const { error } = this.#end;
    this.#end = {};
    return error === undefined
      ? Promise.resolve({ done: true, value: undefined })
      : Promise.reject(error);
  }

  /** No more will come. What waits can still be taken, unless it is thrown away. */
  end(how: { readonly error?: unknown; readonly discard?: boolean } = {}): void {
    if (how.discard) {
      this.#samples.length = 0;
      this.#others.length = 0;
    }
    if (this.#end) return;
    this.#end = how.error === undefined ? {} : { error: how.error };
    for (const taker of this.#takers.splice(0)) {
      this.take().then(taker.resolve, taker.reject);
    }
  }
}
