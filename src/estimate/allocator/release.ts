import type { AddressSpace } from './address-space.js';
import { type BlockTable, none } from './block-table.js';
import type { DeviceMemory } from './device-memory.js';
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
    const set = this.#pools.sets[setNumber] as FreeSet;
    const wanted = Math.max(size, maxSplit);
    const place = set.firstOf(wanted);
    if (place < set.length && this.#isWhole(set.ids[place] as number)) {
      this.#releaseAt(set, place);
      return true;
    }
    let released = 0;
    for (let at = place - 1; at >= 0 && released < wanted; at -= 1) {
      const block = set.ids[at] as number;
      const bytes = this.#blocks.size[block] as number;
      if (bytes < maxSplit) break;
      if (!this.#isWhole(block)) continue;
      this.#releaseAt(set, at);
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
    let { count, age } = this.#ageOf(pool);
    let freed = true;
    while (freed && count > 0 && before - this.#memory.reservedBytes < target) {
      const average = age / count;
      freed = false;
      for (const set of pool.sets) {
        this.#releaseWhere(set, (block) => {
          const blockAge = pool.searches - (this.#blocks.freedAt[block] as number);
          if (blockAge < average) return false;
          freed = true;
          age -= blockAge;
          count -= 1;
          return true;
        });
      }
    }
  }

  /** How many segments could be released, and how long they lay unused, all together. */
  #ageOf(pool: Pool): { count: number; age: number } {
    let count = 0;
    let age = 0;
    for (const number of pool.sets) {
      const { ids, length } = this.#pools.sets[number] as FreeSet;
      for (const block of ids.subarray(0, length)) {
        if (this.#blocks.isSplit(block)) continue;
        count += 1;
        age += pool.searches - (this.#blocks.freedAt[block] as number);
      }
    }
    return { count, age };
  }

  /** Releases the whole segments of a set, in its order, that `chosen` agrees to. */
  #releaseWhere(setNumber: number, chosen: (block: number) => boolean): void {
    const set = this.#pools.sets[setNumber] as FreeSet;
    for (let place = 0; place < set.length; ) {
      const block = set.ids[place] as number;
      if (this.#isWhole(block) && chosen(block)) this.#releaseAt(set, place);
      else place += 1;
    }
  }

  #isWhole(block: number): boolean {
    return !this.#blocks.isSplit(block) && this.#blocks.expandable[block] === none;
  }

  #releaseAt(set: FreeSet, place: number): void {
    const block = set.ids[place] as number;
    const bytes = this.#blocks.size[block] as number;
    set.removeAt(place);
    this.#addresses.give(this.#blocks.address[block] as number, bytes);
    this.#memory.give(bytes);
    this.#memory.segments -= 1;
    this.#blocks.drop(block);
  }
}
