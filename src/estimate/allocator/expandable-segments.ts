import { type BlockTable, none, unmappedMark } from './block-table.js';
import type { DeviceMemory } from './device-memory.js';
import { regionStep } from './driver-addresses.js';
import type { FreeSet } from './free-set.js';
import type { Pools } from './pools.js';
import { type AllocatorSettings, roundUp, smallSegment } from './settings.js';

export interface AllocatorParts {
  readonly blocks: BlockTable;
  readonly pools: Pools;
  readonly memory: DeviceMemory;
}

interface ExpandableSegment {
  readonly page: number;
  readonly start: number;
}

/**
 * `expandable_segments:True`: one long range of address space for each pool and stream, to which
 * memory is mapped page by page, at the lowest address that serves.
 */
export class ExpandableSegments {
  readonly #blocks: BlockTable;
  readonly #pools: Pools;
  readonly #memory: DeviceMemory;
  readonly #settings: Pick<AllocatorSettings, 'deviceTotalBytes' | 'largeSegmentBytes'>;
  /** Blocks without memory behind them, by address, for each free set. */
  readonly #unmapped = new Map<number, number[]>();
  readonly #segments: ExpandableSegment[] = [];
  #edge = 0;

  constructor(
    parts: AllocatorParts,
    settings: Pick<AllocatorSettings, 'deviceTotalBytes' | 'largeSegmentBytes'>,
  ) {
    this.#blocks = parts.blocks;
    this.#pools = parts.pools;
    this.#memory = parts.memory;
    this.#settings = settings;
  }

  /**
   * Best fit counts the room a block can still grow into, so that the open end of a segment is the
   * last choice.
   */
  better(set: FreeSet, block: number): number {
    let best = block;
    for (let next = set.after(best); next !== none; next = set.after(best)) {
      if (this.#room(next) >= this.#room(best)) break;
      best = next;
    }
    return best;
  }

  /** A block of at least `size` bytes, mapped and in no free set; `none` if memory ran out. */
  allocate(set: number, size: number): number {
    // Mapping can add blocks and so replace the table's columns: read them anew each time.
    const blocks = this.#blocks;
    let block = this.#findRoom(set, size);
    if (blocks.marks[block] === unmappedMark && !this.#map(block, size)) return none;
    while ((blocks.size[block] ?? 0) < size) {
      const beyond = blocks.next[block] ?? 0;
      if (!this.#map(beyond, size - (blocks.size[block] ?? 0))) return none;
      block = beyond;
    }
    this.#pools.setAt(set).remove(block);
    return block;
  }

  /** Gives back the whole pages inside the free blocks of a set. */
  unmapFree(set: number): void {
    const blocks = this.#blocks;
    const inExpandable = (block: number) => blocks.expandable[block] !== none;
    for (const block of this.#pools.setAt(set).all().filter(inExpandable)) {
      if (!this.#unmap(block) || blocks.isSplit(block)) continue;
      this.#forget(set, block);
      blocks.drop(block);
      this.#memory.segments -= 1;
    }
  }

  #room(block: number): number {
    const { next, marks, size } = this.#blocks;
    const after = next[block] ?? 0;
    const open = after !== none && marks[after] === unmappedMark ? (size[after] ?? 0) : 0;
    return (size[block] ?? 0) + open;
  }

  /** The block with the lowest address where `size` bytes of free address space begin. */
  #findRoom(set: number, size: number): number {
    for (const unmapped of this.#unmappedOf(set)) {
      const before = this.#blocks.previous[unmapped] ?? 0;
      const start = before !== none && this.#blocks.marks[before] === 0 ? before : unmapped;
      if (this.#hasRoom(start, size)) return start;
    }
    const { deviceTotalBytes, largeSegmentBytes } = this.#settings;
    const page = this.#pools.poolAt(set).small ? smallSegment : largeSegmentBytes;
    // Always enough for the request, even if a test asks for more than the device holds.
    const bytes = roundUp(Math.max((deviceTotalBytes * 9) / 8, size), page);
    const start = this.#edge;
    this.#edge += roundUp(bytes, regionStep);
    const block = this.#blocks.add(start, bytes, set, this.#segments.length);
    this.#segments.push({ page, start });
    this.#memory.segments += 1;
    this.#blocks.marks[block] = unmappedMark;
    this.#remember(set, block);
    return block;
  }

  #hasRoom(start: number, size: number): boolean {
    const { marks, size: sizes, next } = this.#blocks;
    let bytes = 0;
    let block = start;
    while (
      bytes < size &&
      block !== none &&
      (marks[block] === 0 || marks[block] === unmappedMark)
    ) {
      bytes += sizes[block] ?? 0;
      block = next[block] ?? 0;
    }
    return bytes >= size;
  }

  /** Puts memory behind the first `size` bytes of an unmapped block, in whole pages. */
  #map(block: number, size: number): boolean {
    const { marks, size: sizes, address, set, expandable } = this.#blocks;
    const whole = sizes[block] ?? 0;
    const { page } = this.#segmentOf(block);
    const bytes = Math.min(roundUp(Math.min(size, whole), page), whole);
    if (!this.#memory.take(bytes)) return false;
    const setNumber = set[block] ?? 0;
    this.#forget(setNumber, block);
    marks[block] = 0;
    if (bytes < whole) {
      sizes[block] = bytes;
      const start = (address[block] ?? 0) + bytes;
      const rest = this.#blocks.add(start, whole - bytes, setNumber, expandable[block] ?? 0);
      this.#blocks.marks[rest] = unmappedMark;
      this.#insertAfter(block, rest);
      this.#remember(setNumber, rest);
    }
    this.#joinFree(block);
    this.#pools.setAt(setNumber).insert(block);
    return true;
  }

  /** Takes the memory from the whole pages of a free block; false if it has none. */
  #unmap(block: number): boolean {
    const { marks, size, address, set, expandable } = this.#blocks;
    const { page, start } = this.#segmentOf(block);
    const from = address[block] ?? 0;
    const to = from + (size[block] ?? 0);
    const first = start + roundUp(from - start, page);
    const last = start + Math.floor((to - start) / page) * page;
    if (first >= last) return false;
    const setNumber = set[block] ?? 0;
    const free = this.#pools.setAt(setNumber);
    free.remove(block);
    address[block] = first;
    size[block] = last - first;
    marks[block] = unmappedMark;
    const segment = expandable[block] ?? 0;
    if (first > from) {
      const before = this.#blocks.add(from, first - from, setNumber, segment);
      this.#insertBefore(block, before);
      free.insert(before);
    }
    if (to > last) {
      const after = this.#blocks.add(last, to - last, setNumber, segment);
      this.#insertAfter(block, after);
      free.insert(after);
    }
    this.#memory.give(last - first);
    this.#joinUnmapped(block);
    this.#remember(setNumber, block);
    return true;
  }

  #segmentOf(block: number): ExpandableSegment {
    const segment = this.#segments[this.#blocks.expandable[block] ?? none];
    if (segment === undefined) throw new RangeError(`Block ${block} is in no expandable segment.`);
    return segment;
  }

  #joinFree(block: number): void {
    const { marks, previous, next } = this.#blocks;
    const free = this.#pools.setAt(this.#blocks.set[block] ?? 0);
    for (const other of [previous[block] ?? 0, next[block] ?? 0]) {
      if (other === none || marks[other] !== 0) continue;
      free.remove(other);
      this.#absorb(block, other);
    }
  }

  #joinUnmapped(block: number): void {
    const { marks, previous, next, set } = this.#blocks;
    for (const other of [previous[block] ?? 0, next[block] ?? 0]) {
      if (other === none || marks[other] !== unmappedMark) continue;
      this.#forget(set[block] ?? 0, other);
      this.#absorb(block, other);
    }
  }

  /** Joins a block with a neighbour on either side, which ceases to be. */
  #absorb(block: number, gone: number): void {
    const { previous, next, size, address } = this.#blocks;
    if (previous[block] === gone) {
      const before = previous[gone] ?? 0;
      address[block] = address[gone] ?? 0;
      previous[block] = before;
      if (before !== none) next[before] = block;
    } else {
      const after = next[gone] ?? 0;
      next[block] = after;
      if (after !== none) previous[after] = block;
    }
    size[block] = (size[block] ?? 0) + (size[gone] ?? 0);
    this.#blocks.drop(gone);
  }

  #insertAfter(block: number, added: number): void {
    const { previous, next } = this.#blocks;
    const after = next[block] ?? 0;
    previous[added] = block;
    next[added] = after;
    next[block] = added;
    if (after !== none) previous[after] = added;
  }

  #insertBefore(block: number, added: number): void {
    const { previous, next } = this.#blocks;
    const before = previous[block] ?? 0;
    next[added] = block;
    previous[added] = before;
    previous[block] = added;
    if (before !== none) next[before] = added;
  }

  #unmappedOf(set: number): number[] {
    let list = this.#unmapped.get(set);
    if (list === undefined) {
      list = [];
      this.#unmapped.set(set, list);
    }
    return list;
  }

  #remember(set: number, block: number): void {
    const list = this.#unmappedOf(set);
    const { address } = this.#blocks;
    const at = list.findIndex((other) => (address[other] ?? 0) > (address[block] ?? 0));
    list.splice(at === -1 ? list.length : at, 0, block);
  }

  #forget(set: number, block: number): void {
    const list = this.#unmappedOf(set);
    list.splice(list.indexOf(block), 1);
  }
}
