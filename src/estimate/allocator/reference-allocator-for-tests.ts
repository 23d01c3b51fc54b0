import type { AllocatorSettings } from './settings.js';
import { blockSizeFor, roundUp, segmentSizeFor } from './sizes.js';

const MiB = 1024 ** 2;

interface Block {
  id: number;
  address: number;
  bytes: number;
  state: 'allocated' | 'free' | 'unmapped';
  /** How many searches its pool had seen when it became free. */
  freedAt: number;
}

interface Segment {
  readonly small: boolean;
  readonly stream: number;
  readonly expandable: boolean;
  readonly start: number;
  /** Every block, by address. */
  blocks: Block[];
}

/**
 * The same rules written as plainly as possible, to hold the quick implementation against: segments
 * are lists of blocks, and every search looks at all of them. Addresses fall or rise.
 */
export class ReferenceAllocator {
  segments: Segment[] = [];
  reserved = 0;
  retries = 0;
  #edge = 0;
  #expandableEdge = 0;
  #nextId = 0;
  readonly #searches = { small: 0, large: 0 };
  readonly #settings: AllocatorSettings;

  constructor(settings: AllocatorSettings) {
    this.#settings = settings;
  }

  get allocated(): number {
    let bytes = 0;
    for (const { blocks } of this.segments) {
      for (const block of blocks) if (block.state === 'allocated') bytes += block.bytes;
    }
    return bytes;
  }

  malloc(bytes: number, stream: number): number | 'out-of-memory' {
    const size = blockSizeFor(bytes, this.#settings.roundupDivisions);
    const small = size <= MiB;
    this.#searches[small ? 'small' : 'large'] += 1;
    const place = this.#bestFit(size, small, stream) ?? this.#fromDriver(size, small, stream);
    if (place === undefined) return 'out-of-memory';
    const [segment, block] = place;
    const rest = block.bytes - size;
    const splits =
      small || this.#settings.expandableSegments
        ? rest >= 512
        : size < this.#maxSplit && rest > MiB;
    if (splits) {
      const remainder = this.#block(block.address + size, rest, small);
      block.bytes = size;
      segment.blocks.splice(segment.blocks.indexOf(block) + 1, 0, remainder);
    }
    block.state = 'allocated';
    return block.id;
  }

  free(id: number): void {
    for (const segment of this.segments) {
      const block = segment.blocks.find((one) => one.id === id);
      if (block === undefined) continue;
      block.state = 'free';
      block.freedAt = this.#searches[segment.small ? 'small' : 'large'];
      this.#join(segment, block);
    }
  }

  emptyCache(): void {
    for (const small of [false, true]) {
      for (const [segment, block] of this.#freeBlocks(small)) {
        if (segment.expandable) this.#unmap(segment, block);
        else if (segment.blocks.length === 1) this.#give(segment);
      }
    }
  }

  get #maxSplit(): number {
    const { maxSplitBytes } = this.#settings;
    return maxSplitBytes === 'unlimited' ? Infinity : maxSplitBytes;
  }

  #block(address: number, bytes: number, small: boolean): Block {
    this.#nextId += 1;
    const freedAt = this.#searches[small ? 'small' : 'large'];
    return { id: this.#nextId, address, bytes, state: 'free', freedAt };
  }

  /** By size, then address. */
  #freeBlocks(small: boolean, stream?: number): [Segment, Block][] {
    return this.segments
      .filter((one) => one.small === small && (stream === undefined || one.stream === stream))
      .flatMap((segment) => segment.blocks.map((block): [Segment, Block] => [segment, block]))
      .filter(([, block]) => block.state === 'free')
      .toSorted(([, a], [, b]) => a.bytes - b.bytes || a.address - b.address);
  }

  #bestFit(size: number, small: boolean, stream: number): [Segment, Block] | undefined {
    const fitting = this.#freeBlocks(small, stream).filter(([, block]) => block.bytes >= size);
    let [found] = fitting;
    if (found === undefined) return undefined;
    if (this.#settings.expandableSegments) {
      for (const other of fitting.slice(1)) {
        if (room(other) >= room(found)) break;
        found = other;
      }
    }
    const [, { bytes }] = found;
    if (size < this.#maxSplit && bytes >= this.#maxSplit) return undefined;
    const tooLarge = bytes >= size + this.#settings.maxNonSplitRoundingBytes;
    if (size >= this.#maxSplit && tooLarge) return undefined;
    return found;
  }

  #fromDriver(size: number, small: boolean, stream: number): [Segment, Block] | undefined {
    this.#collect();
    const first = this.#newSegment(size, small, stream);
    if (first !== undefined) return first;
    if (this.#releaseOversize(size, small, stream)) {
      const second = this.#newSegment(size, small, stream);
      if (second !== undefined) return second;
    }
    this.emptyCache();
    this.retries += 1;
    return this.#newSegment(size, small, stream);
  }

  #fits(bytes: number, cap: number | 'unlimited'): boolean {
    return cap === 'unlimited' || this.reserved + bytes <= cap;
  }

  #newSegment(size: number, small: boolean, stream: number): [Segment, Block] | undefined {
    const bytes = segmentSizeFor(size, this.#settings.largeSegmentBytes);
    if (!this.#fits(bytes, this.#settings.allowedBytes)) return undefined;
    if (this.#settings.expandableSegments) return this.#expand(size, small, stream);
    if (!this.#fits(bytes, this.#settings.deviceBytes)) return undefined;
    this.reserved += bytes;
    const falling = this.#settings.addresses === 'falling';
    const start = falling ? this.#edge - bytes : this.#edge;
    this.#edge += falling ? -bytes : bytes;
    const block = this.#block(start, bytes, small);
    const segment = { small, stream, expandable: false, start, blocks: [block] };
    this.segments.push(segment);
    return [segment, block];
  }

  #expand(size: number, small: boolean, stream: number): [Segment, Block] | undefined {
    const page = small ? 2 * MiB : this.#settings.largeSegmentBytes;
    const [segment, from] = this.#addressRoom(size, small, stream, page);
    // Page by page behind what is free already, until the request fits.
    let block = blockAt(segment, from);
    let at = from;
    while (block.state === 'unmapped' || block.bytes < size) {
      const hole = block.state === 'unmapped' ? block : blockAt(segment, at + 1);
      const missing = block.state === 'unmapped' ? size : size - block.bytes;
      const bytes = roundUp(Math.min(missing, hole.bytes), page);
      if (!this.#fits(bytes, this.#settings.deviceBytes)) return undefined;
      this.reserved += bytes;
      const mapped = this.#block(hole.address, bytes, small);
      hole.address += bytes;
      hole.bytes -= bytes;
      const place = segment.blocks.indexOf(hole);
      segment.blocks.splice(place, hole.bytes === 0 ? 1 : 0, mapped);
      block = this.#join(segment, mapped);
      at = segment.blocks.indexOf(block);
    }
    return [segment, block];
  }

  /** The lowest place where free and unmapped blocks give enough address space. */
  #addressRoom(size: number, small: boolean, stream: number, page: number): [Segment, number] {
    for (const segment of this.segments) {
      if (segment.small !== small || segment.stream !== stream || !segment.expandable) continue;
      for (const [at, block] of segment.blocks.entries()) {
        if (block.state !== 'unmapped') continue;
        const from = segment.blocks[at - 1]?.state === 'free' ? at - 1 : at;
        let bytes = 0;
        for (const one of segment.blocks.slice(from)) {
          if (one.state === 'allocated') break;
          bytes += one.bytes;
        }
        if (bytes >= size) return [segment, from];
      }
    }
    const bytes = roundUp(Math.max((this.#settings.deviceTotalBytes * 9) / 8, size), page);
    const start = this.#expandableEdge;
    this.#expandableEdge += roundUp(bytes, 32 * MiB);
    const block: Block = { ...this.#block(start, bytes, small), state: 'unmapped' };
    const segment = { small, stream, expandable: true, start, blocks: [block] };
    this.segments.push(segment);
    return [segment, 0];
  }

  #unmap(segment: Segment, block: Block): void {
    const page = segment.small ? 2 * MiB : this.#settings.largeSegmentBytes;
    const from = segment.start + roundUp(block.address - segment.start, page);
    const end = block.address + block.bytes;
    const to = segment.start + Math.floor((end - segment.start) / page) * page;
    if (to <= from) return;
    this.reserved -= to - from;
    const parts: Block[] = [{ ...this.#block(from, to - from, segment.small), state: 'unmapped' }];
    if (from > block.address) {
      parts.unshift(this.#block(block.address, from - block.address, segment.small));
    }
    if (end > to) parts.push(this.#block(to, end - to, segment.small));
    segment.blocks.splice(segment.blocks.indexOf(block), 1, ...parts);
    for (const part of parts) if (part.state === 'unmapped') this.#join(segment, part);
    if (segment.blocks.length === 1) this.#drop(segment);
  }

  /** Joins a block with its neighbours of the same state; gives the joined one. */
  #join(segment: Segment, block: Block): Block {
    const at = segment.blocks.indexOf(block);
    const before = segment.blocks[at - 1];
    const after = segment.blocks[at + 1];
    if (after?.state === block.state) {
      block.bytes += after.bytes;
      segment.blocks.splice(at + 1, 1);
    }
    if (before?.state === block.state) {
      block.address = before.address;
      block.bytes += before.bytes;
      segment.blocks.splice(at - 1, 1);
    }
    return block;
  }

  #give(segment: Segment): void {
    this.reserved -= segment.blocks[0]?.bytes ?? 0;
    this.#drop(segment);
  }

  #drop(segment: Segment): void {
    this.segments = this.segments.filter((one) => one !== segment);
  }

  #releaseOversize(size: number, small: boolean, stream: number): boolean {
    if (this.#maxSplit === Infinity) return false;
    const wanted = Math.max(size, this.#maxSplit);
    const oversize = this.#freeBlocks(small, stream).filter(
      ([{ expandable }, { bytes }]) => bytes >= this.#maxSplit && !expandable,
    );
    const one = oversize.find(([, { bytes }]) => bytes >= wanted);
    if (one !== undefined) {
      this.#give(one[0]);
      return true;
    }
    let released = 0;
    for (const [segment, { bytes }] of oversize.toReversed()) {
      if (released >= wanted) break;
      this.#give(segment);
      released += bytes;
    }
    return released >= wanted;
  }

  #collect(): void {
    const { allowedBytes, garbageCollectionThreshold: threshold } = this.#settings;
    if (allowedBytes === 'unlimited' || threshold === 0) return;
    const target = this.reserved - Math.floor(threshold * allowedBytes);
    if (target <= 0) return;
    const before = this.reserved;
    const age = ([, block]: [Segment, Block]) => this.#searches.large - block.freedAt;
    let left = this.#freeBlocks(false).filter(([segment]) => segment.blocks.length === 1);
    while (left.length > 0 && before - this.reserved < target) {
      const average = left.reduce((sum, one) => sum + age(one), 0) / left.length;
      const old = left.filter((one) => age(one) >= average && !one[0].expandable);
      if (old.length === 0) return;
      for (const [segment] of old) this.#give(segment);
      left = left.filter((one) => !old.includes(one));
    }
  }
}

function blockAt({ blocks }: Segment, at: number): Block {
  const block = blocks[at];
  if (block === undefined) throw new Error(`There is no block ${at}.`);
  return block;
}

/** The bytes of a block and of the address space it can grow into. */
function room([segment, block]: [Segment, Block]): number {
  const after = segment.blocks[segment.blocks.indexOf(block) + 1];
  return block.bytes + (after?.state === 'unmapped' ? after.bytes : 0);
}
