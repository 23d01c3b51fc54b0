import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, KiB, MiB } from '../../units/bytes.js';
import { type CachingAllocator, createAllocator } from './caching-allocator.js';
import {
  type AllocatorSettings,
  blockSizeFor,
  defaultSettings,
  roundUp,
  segmentSizeFor,
} from './settings.js';

const mebibyte = 1024 ** 2;

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
class ReferenceAllocator {
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
    const small = size <= mebibyte;
    this.#searches[small ? 'small' : 'large'] += 1;
    const place = this.#bestFit(size, small, stream) ?? this.#fromDriver(size, small, stream);
    if (place === undefined) return 'out-of-memory';
    const [segment, block] = place;
    const rest = block.bytes - size;
    const splits =
      small || this.#settings.expandableSegments
        ? rest >= 512
        : size < this.#maxSplit && rest > mebibyte;
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
    const page = small ? 2 * mebibyte : this.#settings.largeSegmentBytes;
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
    this.#expandableEdge += roundUp(bytes, 32 * mebibyte);
    const block: Block = { ...this.#block(start, bytes, small), state: 'unmapped' };
    const segment = { small, stream, expandable: true, start, blocks: [block] };
    this.segments.push(segment);
    return [segment, 0];
  }

  #unmap(segment: Segment, block: Block): void {
    const page = segment.small ? 2 * mebibyte : this.#settings.largeSegmentBytes;
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

const sizes = fc.oneof(
  fc.integer({ min: 1, max: 2 * MiB }),
  fc.integer({ min: 1, max: 80 }).map((count) => count * MiB),
  fc.constantFrom(512, KiB, 64 * KiB, MiB, MiB + 512, 2 * MiB, 9 * MiB, 10 * MiB, 12 * MiB),
);

type Step =
  | { readonly do: 'malloc'; readonly bytes: number; readonly stream: number }
  | { readonly do: 'free'; readonly which: number }
  | { readonly do: 'emptyCache' };

const stream = fc.constantFrom(0, 0, 0, 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({ do: fc.constant('malloc' as const), bytes: sizes, stream }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('free' as const), which: fc.nat(500) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'emptyCache' as const }) },
);

const cap = fc.oneof(
  fc.constant('unlimited' as const),
  fc.integer({ min: 10, max: 400 }).map((count) => count * MiB),
);

function filled(steps: number): number[] {
  return Array.from({ length: 16 }, () => steps);
}

const settings: fc.Arbitrary<AllocatorSettings> = fc.record({
  addresses: fc.constantFrom('falling' as const, 'rising' as const),
  largeSegmentBytes: fc.constantFrom(20 * MiB, 12 * MiB),
  maxSplitBytes: fc.constantFrom('unlimited' as const, 20 * MiB, 50 * MiB),
  maxNonSplitRoundingBytes: fc.constantFrom(20 * MiB, 40 * MiB),
  roundupDivisions: fc.constantFrom([], filled(4), filled(1)),
  garbageCollectionThreshold: fc.constantFrom(0, 0.3, 0.8),
  expandableSegments: fc.boolean(),
  streamWork: fc.constantFrom('prompt' as const, 'awaited' as const),
  allowedBytes: cap,
  deviceBytes: cap,
  // Small enough that a random job can use up a whole expandable segment.
  deviceTotalBytes: fc.constantFrom(200 * MiB, 141 * GiB),
});

/** Returns the rules that the allocator breaks; each must hold after every operation. */
function brokenRules(allocator: CachingAllocator): string[] {
  const broken: string[] = [];
  const segments = allocator.segments();
  let allocated = 0;
  let reserved = 0;
  for (const { address: start, bytes: backed, blocks } of segments) {
    let end = start;
    let before = '';
    for (const { address, bytes, state } of blocks) {
      if (address !== end || bytes <= 0) broken.push(`a gap before ${address}`);
      if (state !== 'allocated' && state === before) broken.push(`two ${state} at ${address}`);
      before = state;
      end += bytes;
      if (state === 'allocated') allocated += bytes;
    }
    reserved += backed;
  }
  const stats = allocator.stats();
  if (stats.allocatedBytes !== allocated) broken.push('allocated is not the sum of live blocks');
  if (stats.reservedBytes !== reserved) broken.push('reserved is not the sum of segments');
  if (stats.segments !== segments.length) broken.push('segments are miscounted');
  if (stats.peakReservedBytes < reserved) broken.push('reserved is above its peak');
  if (stats.peakAllocatedBytes < allocated) broken.push('allocated is above its peak');
  return broken;
}

describe('any sequence of requests', () => {
  it('agrees with the plain implementation, block by block', () => {
    fc.assert(
      fc.property(settings, fc.array(step, { maxLength: 80, size: 'max' }), (chosen, steps) => {
        const allocator = createAllocator(chosen);
        const reference = new ReferenceAllocator(chosen);
        const live: { handle: number; id: number }[] = [];
        for (const one of steps) {
          if (one.do === 'malloc') {
            const handle = allocator.malloc(one.bytes, one.stream);
            const id = reference.malloc(one.bytes, one.stream);
            expect(typeof handle === 'number').toBe(typeof id === 'number');
            if (typeof handle === 'number' && typeof id === 'number') live.push({ handle, id });
          } else if (one.do === 'free') {
            const [gone] = live.splice(one.which % Math.max(live.length, 1), 1);
            if (gone === undefined) continue;
            allocator.free(gone.handle);
            reference.free(gone.id);
          } else {
            allocator.emptyCache();
            reference.emptyCache();
          }
          expect(brokenRules(allocator)).toEqual([]);
          expect(layoutOf(allocator)).toEqual(layoutOfReference(reference));
          expect(allocator.retries).toBe(reference.retries);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('keeps its invariants where the driver chooses the addresses, and never overlaps', () => {
    fc.assert(
      fc.property(cap, fc.array(step, { maxLength: 200, size: 'max' }), (allowedBytes, steps) => {
        const allocator = createAllocator({ ...defaultSettings, allowedBytes });
        const live: number[] = [];
        for (const one of steps) {
          if (one.do === 'malloc') {
            const handle = allocator.malloc(one.bytes, one.stream);
            if (typeof handle === 'number') live.push(handle);
          } else if (one.do === 'free') {
            const [gone] = live.splice(one.which % Math.max(live.length, 1), 1);
            if (gone !== undefined) allocator.free(gone);
          } else {
            allocator.emptyCache();
          }
          expect(brokenRules(allocator)).toEqual([]);
          const segments = allocator.segments();
          const overlaps = segments.filter(({ address }, at) => {
            const below = segments[at - 1];
            return below !== undefined && below.address + below.bytes > address;
          });
          expect(overlaps).toEqual([]);
        }
      }),
      { numRuns: 40 },
    );
  });

  it('gives everything back once all is freed', () => {
    fc.assert(
      fc.property(settings, fc.array(sizes, { maxLength: 60, size: 'max' }), (chosen, requests) => {
        const allocator = createAllocator(chosen);
        const answers = requests.map((bytes) => allocator.malloc(bytes));
        for (const answer of answers) if (typeof answer === 'number') allocator.free(answer);
        allocator.emptyCache();
        expect(allocator.stats()).toMatchObject({ allocatedBytes: 0, reservedBytes: 0 });
        // Address space of an expandable segment may stay; it costs nothing.
        expect(allocator.segments().filter(({ bytes }) => bytes > 0)).toEqual([]);
      }),
    );
  });

  it('never passes its cap', () => {
    fc.assert(
      fc.property(settings, fc.array(sizes, { maxLength: 60, size: 'max' }), (chosen, requests) => {
        const allocator = createAllocator({ ...chosen, deviceBytes: chosen.allowedBytes });
        for (const bytes of requests) allocator.malloc(bytes);
        const limit = chosen.allowedBytes === 'unlimited' ? Infinity : chosen.allowedBytes;
        expect(allocator.stats().peakReservedBytes).toBeLessThanOrEqual(limit);
      }),
    );
  });
});

function layoutOf(allocator: CachingAllocator): unknown {
  return allocator.segments().map(({ pool, expandable, blocks }) => ({ pool, expandable, blocks }));
}

function layoutOfReference({ segments }: ReferenceAllocator): unknown {
  return segments
    .toSorted((a, b) => (a.blocks[0]?.address ?? 0) - (b.blocks[0]?.address ?? 0))
    .map(({ small, expandable, blocks }) => ({
      pool: small ? 'small' : 'large',
      expandable,
      blocks: blocks.map(({ address, bytes, state }) => ({ address, bytes, state })),
    }));
}
