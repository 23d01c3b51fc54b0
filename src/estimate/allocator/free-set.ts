import type { BlockTable } from './block-table.js';
import { FreeChunk } from './free-chunk.js';

/**
 * The place of a block: the number of its chunk, and in the lower bits its place there. Chunks are cut in halves when
 * they have 1024 entries, so that a stream has too few events for more chunks than the upper bits can count.
 */
const placeBits = 16;
const inChunk = (1 << placeBits) - 1;
/** Nothing is large enough. */
export const nowhere = -1;

/**
 * The free blocks of one pool and stream, ordered by size and then address, as best fit wants them.
 *
 * Sorted chunks: most jobs keep 20 to 400 free blocks, which are one chunk of two flat columns, where
 * moving a few hundred bytes is quicker than any tree. A model of a thousand layers frees tens of
 * thousands; chunks keep the cost of one move from growing with them. A place is valid until the next
 * change.
 */
export class FreeSet {
  readonly #chunks: FreeChunk[];
  readonly #blocks: BlockTable;

  constructor(blocks: BlockTable) {
    this.#blocks = blocks;
    this.#chunks = [new FreeChunk(blocks)];
  }

  get length(): number {
    return this.#chunks.reduce((sum, { length }) => sum + length, 0);
  }

  /** The size of the largest block; 0 where none is free. */
  get largest(): number {
    return this.#chunks.at(-1)?.largest ?? 0;
  }

  blockAt(place: number): number {
    return this.#chunkOf(place).ids[place & inChunk] ?? 0;
  }

  /** The place of the smallest block with at least `size` bytes (the lowest address among equals). */
  firstOf(size: number): number {
    const number = this.#chunkFor(size, Number.NEGATIVE_INFINITY);
    const chunk = this.#chunks[number];
    const at = chunk?.placeFor(size, Number.NEGATIVE_INFINITY) ?? 0;
    return at < (chunk?.length ?? 0) ? (number << placeBits) + at : nowhere;
  }

  /** The place of a block that is in the set. */
  placeOf(block: number): number {
    const size = this.#blocks.size[block] ?? 0;
    const address = this.#blocks.address[block] ?? 0;
    const number = this.#chunkFor(size, address);
    return (number << placeBits) + (this.#chunks[number]?.placeFor(size, address) ?? 0);
  }

  /** The next place in the order, or `nowhere`. */
  after(place: number): number {
    if ((place & inChunk) + 1 < this.#chunkOf(place).length) return place + 1;
    const next = (place >>> placeBits) + 1;
    return next < this.#chunks.length ? next << placeBits : nowhere;
  }

  insert(block: number): void {
    const size = this.#blocks.size[block] ?? 0;
    const number = this.#chunkFor(size, this.#blocks.address[block] ?? 0);
    const chunk = this.#chunks[number];
    chunk?.insert(block);
    if (chunk?.isFull === true) this.#chunks.splice(number + 1, 0, chunk.splitOff());
  }

  removeAt(place: number): void {
    const chunk = this.#chunkOf(place);
    chunk.removeAt(place & inChunk);
    if (chunk.length === 0 && this.#chunks.length > 1) {
      this.#chunks.splice(place >>> placeBits, 1);
    }
  }

  /** The entry at `place` becomes `block`, whose size and address are already the new ones. */
  slide(place: number, block: number): void {
    const from = place >>> placeBits;
    const size = this.#blocks.size[block] ?? 0;
    if (this.#chunkFor(size, this.#blocks.address[block] ?? 0) === from) {
      this.#chunkOf(place).slide(place & inChunk, block);
      return;
    }
    this.removeAt(place);
    this.insert(block);
  }

  /** Takes out the blocks that are `chosen`, in their order, and says how many. */
  removeWhere(chosen: (block: number) => boolean, onRemoved: (block: number) => void): number {
    const before = this.length;
    for (const chunk of this.#chunks) chunk.removeWhere(chosen, onRemoved);
    const left = this.#chunks.filter(({ length }) => length > 0);
    if (left.length > 0) this.#chunks.splice(0, this.#chunks.length, ...left);
    else this.#chunks.length = 1;
    return before - this.length;
  }

  /** All blocks in their order, as they are now. */
  all(): number[] {
    return this.#chunks.flatMap(({ ids, length }) => [...ids.subarray(0, length)]);
  }

  #chunkOf(place: number): FreeChunk {
    const chunk = this.#chunks[place >>> placeBits];
    if (chunk === undefined) throw new RangeError(`There is no free block at ${place}.`);
    return chunk;
  }

  /** The first chunk that ends at or after this size and address; the last where none does. */
  #chunkFor(size: number, address: number): number {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (chunks[middle]?.endsBefore(size, address) === true) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
