/** Something with a place in an order and a size. Its order never changes. */
export interface Sized {
  readonly order: number;
  size: number;
}

interface Chunk<T> {
  readonly entries: T[];
  /** No entry is larger. */
  largest: number;
}

/** Chunks are looked at one by one, their entries too: about as many of one as of the other. */
const maxEntries = 128;

/** Entries in an order, where the last that is large enough is found without looking at each. */
export class SizedList<T extends Sized> {
  readonly #chunks: Chunk<T>[] = [];

  /** The same list of copies of its entries, which have the same order and size. */
  copy(copyOf: (entry: T) => T): SizedList<T> {
    const made = new SizedList<T>();
    for (const { entries, largest } of this.#chunks) {
      made.#chunks.push({ entries: entries.map(copyOf), largest });
    }
    return made;
  }

  add(entry: T): void {
    const number = Math.max(0, this.#chunkFor(entry.order));
    const chunk = this.#chunks[number];
    if (chunk === undefined) {
      this.#chunks.push({ entries: [entry], largest: entry.size });
      return;
    }
    const { entries } = chunk;
    entries.splice(placeIn(entries, entry.order), 0, entry);
    chunk.largest = Math.max(chunk.largest, entry.size);
    if (entries.length < maxEntries) return;
    const upper = entries.splice(entries.length >>> 1);
    this.#chunks.splice(number + 1, 0, { entries: upper, largest: largestOf(upper) });
    chunk.largest = largestOf(entries);
  }

  remove(entry: T): void {
    const number = this.#chunkFor(entry.order);
    const chunk = this.#chunks[number];
    if (chunk === undefined) return;
    chunk.entries.splice(placeIn(chunk.entries, entry.order), 1);
    if (chunk.entries.length === 0) this.#chunks.splice(number, 1);
    else if (chunk.largest === entry.size) chunk.largest = largestOf(chunk.entries);
  }

  resize(entry: T, size: number): void {
    const before = entry.size;
    if (before === size) return;
    entry.size = size;
    const chunk = this.#chunks[this.#chunkFor(entry.order)];
    if (chunk === undefined) return;
    if (size > chunk.largest) chunk.largest = size;
    else if (before === chunk.largest) chunk.largest = largestOf(chunk.entries);
  }

  /** The last in the order with at least this size. */
  lastOf(size: number): T | undefined {
    return this.#chunks
      .findLast(({ largest }) => largest >= size)
      ?.entries.findLast((entry) => entry.size >= size);
  }

  /** The last chunk that starts at or before it; -1 where all start later. */
  #chunkFor(order: number): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#chunks[middle]?.entries[0]?.order ?? 0) <= order) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

function placeIn(entries: readonly Sized[], order: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.order ?? 0) < order) low = middle + 1;
    else high = middle;
  }
  return low;
}

function largestOf(entries: readonly Sized[]): number {
  return entries.reduce((most, { size }) => Math.max(most, size), 0);
}
