import { type BlockTable, none } from './block-table.js';

const noBlocks = new Int32Array(0);
/** Up to so many entries are looked at, or moved, one by one. */
const fewEntries = 16;

/**
 * The free blocks of one pool and stream, ordered by size and then address, as best fit wants them.
 *
 * They lie in bins by their size, in order within each. Jobs keep 20 to 600 free blocks, so that a bin has a few;
 * more where many are of one size. A bit for each bin says whether it has any.
 */
export class FreeSet {
  readonly #blocks: BlockTable;
  /** Blocks of each bin in their order; only as many entries count as `#counts` says. */
  readonly #bins: Int32Array[] = Array.from({ length: binCount }, () => noBlocks);
  readonly #counts = new Int32Array(binCount);
  readonly #filled = new Int32Array(binCount / 32);

  constructor(blocks: BlockTable) {
    this.#blocks = blocks;
  }

  /** The same blocks, where `blocks` is a copy of the table that they are in. */
  copy(blocks: BlockTable): FreeSet {
    const made = new FreeSet(blocks);
    for (const [bin, ids] of this.#bins.entries()) {
      if ((this.#counts[bin] ?? 0) > 0) made.#bins[bin] = ids.slice();
    }
    made.#counts.set(this.#counts);
    made.#filled.set(this.#filled);
    return made;
  }

  get length(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0);
  }

  /** The size of the largest block; 0 where none is free. */
  get largest(): number {
    for (let word = this.#filled.length - 1; word >= 0; word -= 1) {
      const bits = this.#filled[word] ?? 0;
      if (bits === 0) continue;
      const bin = word * 32 + 31 - Math.clz32(bits);
      return this.#blocks.size[this.#bins[bin]?.[(this.#counts[bin] ?? 0) - 1] ?? 0] ?? 0;
    }
    return 0;
  }

  /** The smallest block with at least `size` bytes, the lowest address among equals; `none` where there is none. */
  firstOf(size: number): number {
    const bin = binOf(size);
    const ids = this.#bins[bin] ?? noBlocks;
    const count = this.#counts[bin] ?? 0;
    const place = placeFor(this.#blocks, ids, count, size, Number.NEGATIVE_INFINITY);
    if (place < count) return ids[place] ?? none;
    const next = nextFilled(this.#filled, bin + 1);
    return next === none ? none : (this.#bins[next]?.[0] ?? none);
  }

  /** The same block, taken out. */
  takeFirst(size: number): number {
    let bin = binOf(size);
    let count = this.#counts[bin] ?? 0;
    let ids = this.#bins[bin] ?? noBlocks;
    let place = placeFor(this.#blocks, ids, count, size, Number.NEGATIVE_INFINITY);
    if (place === count) {
      bin = nextFilled(this.#filled, bin + 1);
      if (bin === none) return none;
      count = this.#counts[bin] ?? 0;
      ids = this.#bins[bin] ?? noBlocks;
      place = 0;
    }
    const block = ids[place] ?? none;
    takeOut(ids, place, count);
    this.#counts[bin] = count - 1;
    if (count === 1) setEmpty(this.#filled, bin);
    return block;
  }

  /** The block that follows one of the set in the order, or `none`. */
  after(block: number): number {
    const bin = binOf(this.#blocks.size[block] ?? 0);
    const ids = this.#bins[bin] ?? noBlocks;
    const count = this.#counts[bin] ?? 0;
    const place = placeOf(this.#blocks, ids, count, block) + 1;
    if (place < count) return ids[place] ?? none;
    const next = nextFilled(this.#filled, bin + 1);
    return next === none ? none : (this.#bins[next]?.[0] ?? none);
  }

  insert(block: number): void {
    const size = this.#blocks.size[block] ?? 0;
    const bin = binOf(size);
    const count = this.#counts[bin] ?? 0;
    let ids = this.#bins[bin] ?? noBlocks;
    if (count === ids.length) {
      ids = widened(ids);
      this.#bins[bin] = ids;
    }
    const place = placeFor(this.#blocks, ids, count, size, this.#blocks.address[block] ?? 0);
    if (count - place > fewEntries) ids.copyWithin(place + 1, place, count);
    else for (let at = count; at > place; at -= 1) ids[at] = ids[at - 1] ?? 0;
    ids[place] = block;
    this.#counts[bin] = count + 1;
    if (count === 0) setFilled(this.#filled, bin);
  }

  /** Takes out a block, whose size and address are still those with which it came in. */
  remove(block: number): void {
    const bin = binOf(this.#blocks.size[block] ?? 0);
    const ids = this.#bins[bin] ?? noBlocks;
    const count = this.#counts[bin] ?? 0;
    takeOut(ids, placeOf(this.#blocks, ids, count, block), count);
    this.#counts[bin] = count - 1;
    if (count === 1) setEmpty(this.#filled, bin);
  }

  /** Takes out the blocks that are `chosen`, in their order, and says how many. */
  removeWhere(chosen: (block: number) => boolean, onRemoved: (block: number) => void): number {
    let removed = 0;
    for (const [bin, ids] of this.#bins.entries()) {
      const count = this.#counts[bin] ?? 0;
      let kept = 0;
      for (let place = 0; place < count; place += 1) {
        const block = ids[place] ?? 0;
        if (chosen(block)) {
          onRemoved(block);
        } else {
          ids[kept] = block;
          kept += 1;
        }
      }
      this.#counts[bin] = kept;
      if (kept === 0) setEmpty(this.#filled, bin);
      removed += count - kept;
    }
    return removed;
  }

  /** All blocks in their order, as they are now. */
  all(): number[] {
    return this.#bins.flatMap((ids, bin) => [...ids.subarray(0, this.#counts[bin])]);
  }
}

// These are functions, not private methods: each call of such a method looks first whether it is of this class, and
// they are called several times for each event of a replay.

/** The place of the first of `count` blocks in order that does not come before this size and address. */
function placeFor(
  { size: sizes, address: addresses }: BlockTable,
  ids: Int32Array,
  count: number,
  size: number,
  address: number,
): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const id = ids[middle] ?? 0;
    const other = sizes[id] ?? 0;
    if (other < size || (other === size && (addresses[id] ?? 0) < address)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place of a block that is one of them. */
function placeOf(blocks: BlockTable, ids: Int32Array, count: number, block: number): number {
  if (ids[0] === block) return 0;
  return placeFor(blocks, ids, count, blocks.size[block] ?? 0, blocks.address[block] ?? 0);
}

/** Those of `count` entries that follow one move down to its place. */
function takeOut(ids: Int32Array, place: number, count: number): void {
  const last = count - 1;
  if (last - place > fewEntries) ids.copyWithin(place, place + 1, count);
  else for (let at = place; at < last; at += 1) ids[at] = ids[at + 1] ?? 0;
}

/** The first bin from this one on that has blocks, or `none`. */
function nextFilled(filled: Int32Array, bin: number): number {
  let word = bin >>> 5;
  // The bits of this bin and of those above it.
  let bits = (filled[word] ?? 0) & (-1 << (bin & 31));
  while (bits === 0) {
    word += 1;
    if (word >= filled.length) return none;
    bits = filled[word] ?? 0;
  }
  return word * 32 + 31 - Math.clz32(bits & -bits);
}

function setFilled(filled: Int32Array, bin: number): void {
  filled[bin >>> 5] = (filled[bin >>> 5] ?? 0) | (1 << (bin & 31));
}

function setEmpty(filled: Int32Array, bin: number): void {
  filled[bin >>> 5] = (filled[bin >>> 5] ?? 0) & ~(1 << (bin & 31));
}

function widened(ids: Int32Array): Int32Array {
  const wide = new Int32Array(Math.max(4, ids.length * 2));
  wide.set(ids);
  return wide;
}

/** So many bins for each power of two, and from twice as many steps on. */
const binBits = 3;
const evenBins = 2 << binBits;
/** More than 1 TiB: all such sizes share the last bin. */
const largestSteps = 2 ** 31 - 1;

/** How many bins there are: as many whole words of bits as `binOf` needs. */
export const binCount = 256;

/**
 * The number of the bin for blocks of a size. A larger size is never in a lower bin; those of one bin differ by an
 * eighth at most, small ones not at all.
 *
 * @example
 * binOf(512); // 1
 * binOf(20 * 1024 ** 2) > binOf(16 * 1024 ** 2); // true
 */
export function binOf(size: number): number {
  // In steps of `blockStep`, written as a number: the division becomes a product.
  const steps = size / 512;
  if (steps < evenBins) return steps | 0;
  const whole = steps < largestSteps ? steps | 0 : largestSteps;
  const power = 31 - Math.clz32(whole);
  const within = (whole >>> (power - binBits)) & ((1 << binBits) - 1);
  return evenBins + ((power - binBits - 1) << binBits) + within;
}
