/** Counts stop here: what was asked for often long ago must be forgotten in a few halvings. */
const highest = 15;
/** All counts are halved after so many requests for each item that fits. */
const requestsPerItem = 10;
/** A store that holds almost nothing still needs some requests to tell items apart. */
const leastItems = 16;

/**
 * How often each key was asked for lately, also keys that are not held. A plain map instead of a
 * sketch: buffers are large and few, and a map is exact. It holds at most as many keys as there were
 * requests between two halvings.
 */
export class Frequencies {
  readonly #counts = new Map<string, number>();
  #requests = 0;

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  count(key: string, itemsHeld: number): void {
    this.#counts.set(key, Math.min(highest, this.of(key) + 1));
    this.#requests += 1;
    if (this.#requests >= requestsPerItem * Math.max(itemsHeld, leastItems)) this.#halve();
  }

  #halve(): void {
    this.#requests = Math.floor(this.#requests / 2);
    for (const [key, count] of this.#counts) {
      if (count > 1) this.#counts.set(key, Math.floor(count / 2));
      else this.#counts.delete(key);
    }
  }
}
