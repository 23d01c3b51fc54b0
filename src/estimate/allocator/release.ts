import { type BlockTable, none } from './block-table.js';
import type { DeviceMemory } from './device-memory.js';
import type { AddressSpace } from './driver-addresses.js';
import type { AllocatorParts, ExpandableSegments } from './expandable-segments.js';
import type { FreeSet } from './free-set.js';
import { defaultOwner, type Pool, type Pools } from './pools.js';

/** The ways in which cached segments go back to the driver. */
export class Release {
  readonly #blocks: BlockTable;
  readonly #pools: Pools;
  readonly #memory: DeviceMemory;
  readonly #addresses: AddressSpace;
  readonly #expandable: ExpandableSegments;

  constructor(parts: AllocatorParts, addresses: AddressSpace, expandable: ExpandableSegments) {
    this.#blocks = parts.blocks;
    this.#pools = parts.pools;
    this.#memory = parts.memory;
    this.#addresses = addresses;
    this.#expandable = expandable;
  }

  /** Everything that is free and a whole segment; of expandable segments, whole free pages. */
  cached(): void {
    for (const pool of [...this.#pools.all].toSorted((a, b) => Number(a.small) - Number(b.small))) {
      if (!this.#pools.released.has(pool.owner)) continue;
      for (const set of pool.sets) {
        this.#releaseWhere(set, () => true);
        this.#expandable.unmapFree(set);
      }
    }
  }

  /**
   * With `max_split_size_mb`: one cached oversize block that is large enough, or else several, the
   * largest first. Says whether that gave as much as is needed.
   */
  oversize(setNumber: number, size: number, maxSplit: number): boolean {
    if (maxSplit === Infinity) return false;
    const set = this.#pools.setAt(setNumber);
    const wanted = Math.max(size, maxSplit);
    const first = set.firstOf(wanted);
    if (first !== none && this.#isWhole(first)) {
      this.#releaseOne(set, first);
      return true;
    }
    let released = 0;
    const smaller = set.all().filter((block) => (this.#blocks.size[block] ?? 0) < wanted);
    for (const block of smaller.toReversed()) {
      const bytes = this.#blocks.size[block] ?? 0;
      if (released >= wanted || bytes < maxSplit) break;
      if (!this.#isWhole(block)) continue;
      this.#releaseOne(set, block);
      released += bytes;
    }
    return released >= wanted;
  }

  /**
   * `garbage_collection_threshold`: once more than that share of the cap is reserved, releases large
   * segments that lay unused longer than the average, until it is below again.
   */
  collect(threshold: number): void {
    const limit = Math.floor(threshold * this.#memory.allowedBytes);
    const target = this.#memory.reservedBytes - limit;
    if (target <= 0) return;
    const pool = this.#pools.all.find((other) => other.owner === defaultOwner && !other.small);
    if (pool === undefined) return;
    const before = this.#memory.reservedBytes;
    for (;;) {
      const { count, age } = this.#ageOf(pool);
      if (count === 0 || before - this.#memory.reservedBytes >= target) return;
      const oldest = pool.searches - age / count;
      const isOld = (block: number) => (this.#blocks.freedAt[block] ?? 0) <= oldest;
      let released = 0;
      for (const set of pool.sets) released += this.#releaseWhere(set, isOld);
      if (released === 0) return;
    }
  }

  /** How many segments could be released, and how long they lay unused, all together. */
  #ageOf(pool: Pool): { count: number; age: number } {
    let count = 0;
    let age = 0;
    for (const number of pool.sets) {
      for (const block of this.#pools.setAt(number).all()) {
        if (this.#blocks.isSplit(block)) continue;
        count += 1;
        age += pool.searches - (this.#blocks.freedAt[block] ?? 0);
      }
    }
    return { count, age };
  }

  /** Releases the whole segments of a set, in its order, that are `chosen`; says how many. */
  #releaseWhere(setNumber: number, chosen: (block: number) => boolean): number {
    return this.#pools.setAt(setNumber).removeWhere(
      (block) => this.#isWhole(block) && chosen(block),
      (block) => this.#giveBack(block),
    );
  }

  #isWhole(block: number): boolean {
    return !this.#blocks.isSplit(block) && this.#blocks.expandable[block] === none;
  }

  #releaseOne(set: FreeSet, block: number): void {
    set.remove(block);
    this.#giveBack(block);
  }

  /** A segment that is in no set any more. */
  #giveBack(block: number): void {
    const bytes = this.#blocks.size[block] ?? 0;
    this.#addresses.give(this.#blocks.address[block] ?? 0, bytes);
    this.#memory.give(bytes);
    this.#memory.segments -= 1;
    this.#blocks.drop(block);
  }
}
