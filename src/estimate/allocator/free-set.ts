import type { BlockTable } from './block-table.js';

/**
 * The free blocks of one pool and stream, ordered by size and then address, as best fit wants them.
 *
 * Two flat sorted columns: real jobs keep 20 to 400 free blocks, where moving a few hundred bytes is
 * quicker than any tree. A block that shrinks (split) or grows (merge) slides from its old place to
 * the new one, which is usually near.
 */
export class FreeSet {
  length = 0;
  /** Blocks in order; only the first `length` entries count. */
  ids = new Int32Array(64);
  #sizes = new Float64Array(64);
  readonly #blocks: BlockTable;

  constructor(blocks: BlockTable) {
    this.#blocks = blocks;
  }

  /** The place of the smallest block with at least `size` bytes (the lowest address among equals). */
  firstOf(size: number): number {
    const sizes = this.#sizes;
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((sizes[middle] ?? 0) < size) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The place of a block that is in the set, or the one it would get. */
  placeOf(block: number): number {
    return this.#place(this.#blocks.size[block] ?? 0, this.#blocks.address[block] ?? 0);
  }

  #place(size: number, address: number): number {
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
    const place = this.placeOf(block);
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

  /** The entry at `place` becomes `block`, whose size and address are already the new ones. */
  slide(place: number, block: number): void {
    const ids = this.ids;
    const sizes = this.#sizes;
    const size = this.#blocks.size[block] ?? 0;
    let at = this.placeOf(block);
    // The search still saw the old entry: above it, everything moves one down.
    if (at > place) {
      at -= 1;
      this.#shift(place, at, -1);
    } else {
      this.#shift(at, place, 1);
    }
    ids[at] = block;
    sizes[at] = size;
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
