/** No block: the end of a list of neighbours. */
export const none = -1;

/** Marks of a block. A block with none of them is free and backed by memory. */
export const allocatedMark = 1;
/** Address space of an expandable segment with no memory behind it. */
export const unmappedMark = 2;
/** Freed by the program, while another stream still works on it. */
export const awaitedMark = 4;

/**
 * All blocks of an allocator as columns, addressed by their number. Numbers are used again, so the
 * table stays as large as the most blocks that lived at once. No object is made for a block: making
 * and dropping them would cost more than the allocator's own work.
 */
export class BlockTable {
  size: Float64Array;
  address: Float64Array;
  /** The neighbour at the lower address in the same segment. */
  previous: Int32Array;
  next: Int32Array;
  /** The number of the free set it belongs to. */
  set: Int32Array;
  marks: Uint8Array;
  /** The number of its expandable segment, or `none`. */
  expandable: Int32Array;
  /** For garbage collection: how many searches its pool had seen when the block became free. */
  freedAt: Float64Array;
  #unused = new Int32Array(1024);
  #unusedCount = 0;
  #used = 0;

  /** `from`: another one, whose blocks it begins with. */
  constructor(from?: BlockTable) {
    this.size = from?.size.slice() ?? new Float64Array(1024);
    this.address = from?.address.slice() ?? new Float64Array(1024);
    this.previous = from?.previous.slice() ?? new Int32Array(1024);
    this.next = from?.next.slice() ?? new Int32Array(1024);
    this.set = from?.set.slice() ?? new Int32Array(1024);
    this.marks = from?.marks.slice() ?? new Uint8Array(1024);
    this.expandable = from?.expandable.slice() ?? new Int32Array(1024);
    this.freedAt = from?.freedAt.slice() ?? new Float64Array(1024);
    if (from === undefined) return;
    this.#unused = from.#unused.slice();
    this.#unusedCount = from.#unusedCount;
    this.#used = from.#used;
  }

  /** How many numbers were ever handed out: every block lies below. */
  get extent(): number {
    return this.#used;
  }

  /** A new block without neighbours, free. */
  add(address: number, size: number, set: number, expandable: number): number {
    let block: number;
    if (this.#unusedCount > 0) {
      this.#unusedCount -= 1;
      block = this.#unused[this.#unusedCount] ?? 0;
    } else {
      if (this.#used === this.size.length) this.#grow();
      block = this.#used;
      this.#used += 1;
    }
    this.address[block] = address;
    this.size[block] = size;
    this.set[block] = set;
    this.previous[block] = none;
    this.next[block] = none;
    this.marks[block] = 0;
    this.expandable[block] = expandable;
    return block;
  }

  drop(block: number): void {
    // Size 0 marks the number as unused, so that a stale handle is noticed.
    this.size[block] = 0;
    this.marks[block] = 0;
    this.#unused[this.#unusedCount] = block;
    this.#unusedCount += 1;
  }

  /** Cuts the first `size` bytes off a block, as a block of their own; the block keeps the rest. */
  splitFront(block: number, size: number): number {
    const front = this.add(
      this.address[block] ?? 0,
      size,
      this.set[block] ?? 0,
      this.expandable[block] ?? 0,
    );
    const before = this.previous[block] ?? 0;
    this.previous[front] = before;
    this.next[front] = block;
    if (before !== none) this.next[before] = front;
    this.previous[block] = front;
    this.address[block] = (this.address[block] ?? 0) + size;
    this.size[block] = (this.size[block] ?? 0) - size;
    return front;
  }

  /** Joins a block with its next neighbour, which ceases to be. */
  absorbNext(block: number): void {
    const gone = this.next[block] ?? 0;
    const after = this.next[gone] ?? 0;
    this.size[block] = (this.size[block] ?? 0) + (this.size[gone] ?? 0);
    this.next[block] = after;
    if (after !== none) this.previous[after] = block;
    this.drop(gone);
  }

  isSplit(block: number): boolean {
    return this.previous[block] !== none || this.next[block] !== none;
  }

  #grow(): void {
    const length = this.size.length * 2;
    this.size = widen(this.size, new Float64Array(length));
    this.address = widen(this.address, new Float64Array(length));
    this.previous = widen(this.previous, new Int32Array(length));
    this.next = widen(this.next, new Int32Array(length));
    this.set = widen(this.set, new Int32Array(length));
    this.marks = widen(this.marks, new Uint8Array(length));
    this.expandable = widen(this.expandable, new Int32Array(length));
    this.freedAt = widen(this.freedAt, new Float64Array(length));
    this.#unused = widen(this.#unused, new Int32Array(length));
  }
}

function widen<T extends Float64Array | Int32Array | Uint8Array>(old: T, wide: T): T {
  wide.set(old);
  return wide;
}
