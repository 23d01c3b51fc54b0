import type { BlockTable } from './block-table.js';

/** Entries of a chunk: moving half of them takes about as long as looking for a place. */
const maxEntries = 1024;

/** A run of free blocks, ordered by size and then address, in two flat columns. */
export class FreeChunk {
  length = 0;
  /** Blocks in order; only the first `length` entries count. */
  ids = new Int32Array(64);
  #sizes = new Float64Array(64);
  readonly #blocks: BlockTable;

  constructor(blocks: BlockTable) {
    this.#blocks = blocks;
  }

  get isFull(): boolean {
    return this.length === maxEntries;
  }

  /** The size of its last entry; 0 where it has none. */
  get largest(): number {
    return this.#sizes[this.length - 1] ?? 0;
  }

  /** Whether its last entry comes before this size and address. */
  endsBefore(size: number, address: number): boolean {
    const end = this.length - 1;
    const last = this.#sizes[end] ?? 0;
    return (
      last < size || (last === size && (this.#blocks.address[this.ids[end] ?? 0] ?? 0) < address)
    );
  }

  /** The place of the first entry that does not come before this size and address. */
  placeFor(size: number, address: number): number {
    const sizes = this.#sizes;
    const ids = this.ids;
    const addresses = this.#blocks.address;
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = sizes[middle] ?? 0;
      if (other < size || (other === size && (addresses[ids[middle] ?? 0] ?? 0) < address)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  insert(block: number): void {
    const place = this.#placeOf(block);
    if (this.length === this.ids.length) this.#grow();
    this.#shift(place, this.length, 1);
    this.length += 1;
    this.ids[place] = block;
    this.#sizes[place] = this.#blocks.size[block] ?? 0;
  }

  removeAt(place: number): void {
    this.length -= 1;
    this.#shift(place, this.length, -1);
  }

  /**
   * The entry at `place` becomes `block`, whose size and address are already the new ones. A block
   * that shrinks (split) or grows (merge) moves to its new place, which is usually near.
   */
  slide(place: number, block: number): void {
    let at = this.#placeOf(block);
    // The search still saw the old entry: above it, everything moves one down.
    if (at > place) {
      at -= 1;
      this.#shift(place, at, -1);
    } else {
      this.#shift(at, place, 1);
    }
    this.ids[at] = block;
    this.#sizes[at] = this.#blocks.size[block] ?? 0;
  }

  removeWhere(chosen: (block: number) => boolean, onRemoved: (block: number) => void): void {
    const { ids, length } = this;
    let kept = 0;
    for (let place = 0; place < length; place += 1) {
      const block = ids[place] ?? 0;
      if (chosen(block)) {
        onRemoved(block);
        continue;
      }
      ids[kept] = block;
      this.#sizes[kept] = this.#sizes[place] ?? 0;
      kept += 1;
    }
    this.length = kept;
  }

  /** Takes the upper half out, as a chunk of its own. */
  splitOff(): FreeChunk {
    const upper = new FreeChunk(this.#blocks);
    const middle = this.length >>> 1;
    upper.ids = this.ids.slice(middle);
    upper.#sizes = this.#sizes.slice(middle);
    upper.length = this.length - middle;
    this.length = middle;
    return upper;
  }

  #placeOf(block: number): number {
    return this.placeFor(this.#blocks.size[block] ?? 0, this.#blocks.address[block] ?? 0);
  }

  /** Moves entries by one: [from, to) up, or (from, to] down. */
  #shift(from: number, to: number, by: 1 | -1): void {
    const ids = this.ids;
    const sizes = this.#sizes;
    if (to - from > 32) {
      if (by === 1) {
        ids.copyWithin(from + 1, from, to);
        sizes.copyWithin(from + 1, from, to);
      } else {
        ids.copyWithin(from, from + 1, to + 1);
        sizes.copyWithin(from, from + 1, to + 1);
      }
    } else if (by === 1) {
      for (let i = to; i > from; i -= 1) {
        ids[i] = ids[i - 1] ?? 0;
        sizes[i] = sizes[i - 1] ?? 0;
      }
    } else {
      for (let i = from; i < to; i += 1) {
        ids[i] = ids[i + 1] ?? 0;
        sizes[i] = sizes[i + 1] ?? 0;
      }
    }
  }

  #grow(): void {
    const ids = new Int32Array(this.ids.length * 2);
    ids.set(this.ids);
    this.ids = ids;
    const sizes = new Float64Array(ids.length);
    sizes.set(this.#sizes);
    this.#sizes = sizes;
  }
}
