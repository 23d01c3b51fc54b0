import { Failure } from '../../failure.js';
import type { Known } from '../../units/known.js';
import { allocatedMark, awaitedMark, BlockTable, none, unmappedMark } from './block-table.js';
import { DeviceMemory } from './device-memory.js';
import { type AddressSpace, addressSpaceFor } from './driver-addresses.js';
import { type AllocatorParts, ExpandableSegments } from './expandable-segments.js';
import type { FreeSet } from './free-set.js';
import { defaultOwner, type Pool, Pools } from './pools.js';
import {
  type AllocatorSettings,
  blockSizeFor,
  blockStep,
  checkSettings,
  defaultSettings,
  largestRequest,
  largestSmall,
  segmentSizeFor,
} from './settings.js';

/** The number of a live block. Numbers are used again after `free`. */
type Handle = number;

/**
 * PyTorch's CUDA caching allocator, simulated.
 *
 * @example
 * const allocator = createAllocator({ allowedBytes: 64 * 1024 ** 2 });
 * const block = allocator.malloc(3 * 1024 ** 2); // a number
 * allocator.stats().reservedBytes; // 20971520
 * allocator.malloc(100 * 1024 ** 2); // { kind: 'out-of-memory', ... }
 */
export function createAllocator(settings: Partial<AllocatorSettings> = {}): CachingAllocator {
  return new CachingAllocator({ ...defaultSettings, ...settings });
}

export class CachingAllocator {
  allocatedBytes = 0;
  peakAllocatedBytes = 0;
  retries = 0;
  readonly memory: DeviceMemory;
  readonly #blocks: BlockTable;
  readonly #pools: Pools;
  readonly #addresses: AddressSpace;
  readonly #expandable: ExpandableSegments;
  readonly #release: Release;
  readonly #awaited: AwaitedFrees;
  readonly #settings: AllocatorSettings;
  readonly #maxSplit: number;
  readonly #plainRounding: boolean;
  readonly #collects: boolean;
  /** The first block of a set that is large enough is the one that best fit chooses, and may be split. */
  readonly #plainFit: boolean;

  /** `from`: another one, whose state it begins with. */
  constructor(settings: AllocatorSettings, from?: CachingAllocator) {
    checkSettings(settings);
    this.#settings = settings;
    this.#maxSplit = settings.maxSplitBytes === 'unlimited' ? Infinity : settings.maxSplitBytes;
    this.#plainRounding = settings.roundupDivisions.length === 0;
    this.#collects =
      settings.allowedBytes !== 'unlimited' && settings.garbageCollectionThreshold > 0;
    this.#plainFit = !settings.expandableSegments && this.#maxSplit === Infinity;
    this.memory = new DeviceMemory(settings, from?.memory);
    this.#blocks = new BlockTable(from === undefined ? undefined : from.#blocks);
    this.#pools = new Pools(this.#blocks, from === undefined ? undefined : from.#pools);
    this.#awaited = new AwaitedFrees(from === undefined ? undefined : from.#awaited);
    this.#addresses =
      from === undefined ? addressSpaceFor(settings.addresses) : from.#addresses.copy();
    const parts = { blocks: this.#blocks, pools: this.#pools, memory: this.memory };
    this.#expandable = new ExpandableSegments(parts, settings);
    this.#release = new Release(parts, this.#addresses, this.#expandable);
    if (from === undefined) return;
    this.allocatedBytes = from.allocatedBytes;
    this.peakAllocatedBytes = from.peakAllocatedBytes;
    this.retries = from.retries;
  }

  /** Whether `copy` can be asked for one: expandable segments have more to copy. */
  get canCopy(): boolean {
    return !this.#settings.expandableSegments;
  }

  /** One in the same state, which from now on goes its own way, under other caps where these are given. */
  copy(
    caps: Partial<Pick<AllocatorSettings, 'allowedBytes' | 'deviceBytes'>> = {},
  ): CachingAllocator {
    if (!this.canCopy) throw new RangeError('Expandable segments cannot be copied.');
    return new CachingAllocator({ ...this.#settings, ...caps }, this);
  }

  /** Serves a request, as a block, or says why it could not. */
  malloc(bytes: number, stream = 0, owner = 0): Handle | OutOfMemory {
    if (!(bytes > 0 && bytes <= largestRequest)) refuseRequest(bytes);
    const size = this.#plainRounding
      ? // Up to a multiple of `blockStep`, written as a number: the division becomes a product.
        Math.ceil(bytes / 512) * 512
      : blockSizeFor(bytes, this.#settings.roundupDivisions);
    const small = size <= largestSmall;
    const setNumber = this.#pools.setNumber(owner, stream, small);
    const set = this.#pools.setAt(setNumber);
    if (this.#collects) this.#pools.countSearch(setNumber);
    let block = this.#plainFit ? set.takeFirst(size) : this.#takeBestFit(set, size);
    if (block === none) {
      block = this.#newBlock(setNumber, size);
      if (block === none) return this.#outOfMemory(bytes, size);
    }
    const rest = (this.#blocks.size[block] ?? 0) - size;
    if (this.#plainFit ? rest > (small ? 0 : largestSmall) : this.#splits(size, rest, small)) {
      const front = this.#blocks.splitFront(block, size);
      set.insert(block);
      if (this.#collects) this.#noteFree(block);
      block = front;
    }
    this.#blocks.marks[block] = allocatedMark;
    this.allocatedBytes += this.#blocks.size[block] ?? 0;
    if (this.allocatedBytes > this.peakAllocatedBytes)
      this.peakAllocatedBytes = this.allocatedBytes;
    return block;
  }

  /** Takes a block back; it joins its free neighbours and stays cached. */
  free(handle: Handle): void {
    if (this.#blocks.marks[handle] !== allocatedMark) refuseFree(handle);
    this.allocatedBytes -= this.#blocks.size[handle] ?? 0;
    if (this.#awaited.takes(handle)) this.#blocks.marks[handle] = awaitedMark;
    else this.#join(handle);
  }

  /** `record_stream`: another stream works on a live block, which may not be used again before it is done. */
  use(handle: Handle): void {
    if (this.#blocks.marks[handle] !== allocatedMark) refuseFree(handle);
    if (this.#settings.streamWork === 'awaited') this.#awaited.use(handle);
  }

  /** The work of other streams is done on the first `count` blocks that were freed while they used them. */
  finish(count = Number.POSITIVE_INFINITY): void {
    for (const handle of this.#awaited.finish(count)) this.#join(handle);
  }

  /** A block that is no longer used by anything becomes free. */
  #join(handle: Handle): void {
    const { marks, previous, next } = this.#blocks;
    const set = this.#pools.setAt(this.#blocks.set[handle] ?? 0);
    marks[handle] = 0;
    const before = previous[handle] ?? 0;
    const after = next[handle] ?? 0;
    const joinsBefore = before !== none && marks[before] === 0;
    const joinsAfter = after !== none && marks[after] === 0;
    let freed = handle;
    if (joinsAfter) {
      set.remove(after);
      this.#blocks.absorbNext(handle);
    }
    if (joinsBefore) {
      set.remove(before);
      this.#blocks.absorbNext(before);
      freed = before;
    }
    set.insert(freed);
    if (this.#collects) this.#noteFree(freed);
  }

  /** `torch.cuda.empty_cache()`: gives back every segment that is wholly free. */
  emptyCache(): void {
    this.finish();
    this.#release.cached();
  }

  /** A CUDA graph is gone: what its private pool caches may be given back from now on. */
  releaseOwner(owner: number): void {
    this.#pools.released.add(owner);
  }

  /** The driver or a library takes address space for itself: later segments lie elsewhere. */
  takeAddresses(bytes: number): void {
    this.#addresses.take(bytes);
  }

  /** The first kernel runs: the driver moves what was there, where addresses are those of a fresh process. */
  runFirstKernel(): void {
    this.#addresses.runFirstKernel();
  }

  resetPeaks(): void {
    this.peakAllocatedBytes = this.allocatedBytes;
    this.memory.peakReservedBytes = this.memory.reservedBytes;
  }

  /** The largest free block that a request of this size may get on the first stream; 0 where there is none. */
  largestFreeFor(bytes: number): number {
    const small = bytes <= largestSmall;
    return this.#pools.setAt(this.#pools.setNumber(0, 0, small)).largest;
  }

  /** The size of a live block as the allocator rounded it. */
  sizeOf(handle: Handle): number {
    if (this.#blocks.marks[handle] !== allocatedMark) refuseFree(handle);
    return this.#blocks.size[handle] ?? 0;
  }

  /** Returns the address of a live block. Only the distance between two addresses has a meaning. */
  addressOf(handle: Handle): number {
    if (this.#blocks.marks[handle] !== allocatedMark) refuseFree(handle);
    return this.#blocks.address[handle] ?? 0;
  }

  stats(): AllocatorStats {
    return {
      allocatedBytes: this.allocatedBytes,
      reservedBytes: this.memory.reservedBytes,
      peakAllocatedBytes: this.peakAllocatedBytes,
      peakReservedBytes: this.memory.peakReservedBytes,
      inactiveSplitBytes: this.#inactiveSplitBytes(),
      segments: this.memory.segments,
      retries: this.retries,
    };
  }

  /** Every segment with its blocks, by address: what a memory map shows. */
  segments(): SegmentView[] {
    return viewSegments(this.#blocks, this.#pools);
  }

  /** Takes the block that best fit chooses out of the set; `none` where there is none. */
  #takeBestFit(set: FreeSet, size: number): number {
    let block = set.firstOf(size);
    if (block === none) return none;
    if (this.#settings.expandableSegments) block = this.#expandable.better(set, block);
    if (this.#maxSplit !== Infinity) {
      const found = this.#blocks.size[block] ?? 0;
      if (size < this.#maxSplit) {
        if (found >= this.#maxSplit) return none;
      } else if (found >= size + this.#settings.maxNonSplitRoundingBytes) {
        return none;
      }
    }
    set.remove(block);
    return block;
  }

  #splits(size: number, rest: number, small: boolean): boolean {
    if (small || this.#settings.expandableSegments) return rest >= blockStep;
    return size < this.#maxSplit && rest > largestSmall;
  }

  #noteFree(block: number): void {
    const pool = this.#pools.poolAt(this.#blocks.set[block] ?? 0);
    this.#blocks.freedAt[block] = pool.searches;
  }

  /** A block from a new segment; to make room, releases what is cached, first a little, then all. */
  #newBlock(set: number, size: number): number {
    if (this.#collects) this.#release.collect(this.#settings.garbageCollectionThreshold);
    let block = this.#addSegment(set, size);
    if (block === none && this.#release.oversize(set, size, this.#maxSplit)) {
      block = this.#addSegment(set, size);
    }
    if (block === none) {
      this.finish();
      this.#release.cached();
      this.retries += 1;
      block = this.#addSegment(set, size);
    }
    return block;
  }

  #addSegment(set: number, size: number): number {
    const bytes = segmentSizeFor(size, this.#settings.largeSegmentBytes);
    if (!this.memory.allows(bytes)) return none;
    if (this.#settings.expandableSegments) return this.#expandable.allocate(set, size);
    if (!this.memory.take(bytes)) return none;
    this.memory.segments += 1;
    return this.#blocks.add(this.#addresses.take(bytes), bytes, set, none);
  }

  #outOfMemory(askedBytes: number, size: number): OutOfMemory {
    const left = this.memory.leftBytes;
    return {
      kind: 'out-of-memory',
      askedBytes,
      segmentBytes: segmentSizeFor(size, this.#settings.largeSegmentBytes),
      freeBytes: left === Infinity ? 'unknown' : left,
      allocatedBytes: this.allocatedBytes,
      reservedBytes: this.memory.reservedBytes,
    };
  }

  #inactiveSplitBytes(): number {
    let bytes = 0;
    for (const set of this.#pools.sets) {
      for (const block of set.all()) {
        if (this.#blocks.isSplit(block) && this.#blocks.expandable[block] === none) {
          bytes += this.#blocks.size[block] ?? 0;
        }
      }
    }
    return bytes;
  }
}

/**
 * Blocks that another stream works on (`record_stream`). Once freed they count as free to the program,
 * and stay out of use until that stream's work is done, in the order in which they were freed.
 */
export class AwaitedFrees {
  readonly #used = new Set<number>();
  readonly #waiting: number[] = [];
  /** How many were ever freed and are done: places count from the first free on. */
  #done = 0;
  #from = 0;

  /** `other`: one whose state it begins with. */
  constructor(other?: AwaitedFrees) {
    if (other === undefined) return;
    for (const handle of other.#used) this.#used.add(handle);
    this.#waiting.push(...other.#waiting);
    this.#done = other.#done;
    this.#from = other.#from;
  }

  use(handle: number): void {
    this.#used.add(handle);
  }

  /** Whether a block that is freed now has to wait. */
  takes(handle: number): boolean {
    if (this.#used.size === 0 || !this.#used.delete(handle)) return false;
    this.#waiting.push(handle);
    return true;
  }

  /** Gives out, in order, what is done once the first `count` of all such frees are. */
  *finish(count: number): Generator<number> {
    while (this.#done < count && this.#from < this.#waiting.length) {
      const handle = this.#waiting[this.#from] ?? 0;
      this.#from += 1;
      this.#done += 1;
      yield handle;
    }
    if (this.#from === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#from = 0;
    }
  }
}

function refuseRequest(bytes: number): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-request-size',
    fact: `${bytes} bytes cannot be asked of the allocator.`,
    next: 'Ask for 1 byte to 1 PiB; leave empty tensors out.',
  });
}

function refuseFree(handle: number): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-free',
    fact: `Block ${handle} is not allocated.`,
    next: 'Free each block once.',
  });
}

interface BlockView {
  readonly address: number;
  readonly bytes: number;
  readonly state: 'allocated' | 'free' | 'unmapped';
}

interface SegmentView {
  readonly address: number;
  /** Memory behind it; address space without memory does not count. */
  readonly bytes: number;
  readonly pool: 'small' | 'large';
  readonly expandable: boolean;
  readonly blocks: readonly BlockView[];
}

/** Every segment with its blocks, by address. */
function viewSegments(table: BlockTable, pools: Pools): SegmentView[] {
  const views: SegmentView[] = [];
  for (let block = 0; block < table.extent; block += 1) {
    const live = (table.size[block] ?? 0) > 0;
    if (!live || table.previous[block] !== none) continue;
    views.push(viewOne(table, pools, block));
  }
  return views.toSorted((a, b) => a.address - b.address);
}

function viewOne(table: BlockTable, pools: Pools, first: number): SegmentView {
  const blocks: BlockView[] = [];
  let bytes = 0;
  for (let block = first; block !== none; block = table.next[block] ?? 0) {
    const mark = table.marks[block] ?? 0;
    const size = table.size[block] ?? 0;
    if (mark !== unmappedMark) bytes += size;
    blocks.push({ address: table.address[block] ?? 0, bytes: size, state: stateOf(mark) });
  }
  return {
    address: table.address[first] ?? 0,
    bytes,
    pool: pools.poolAt(table.set[first] ?? 0).small ? 'small' : 'large',
    expandable: table.expandable[first] !== none,
    blocks,
  };
}

function stateOf(mark: number): BlockView['state'] {
  if (mark === allocatedMark) return 'allocated';
  return mark === unmappedMark ? 'unmapped' : 'free';
}

/** A request that could not be served, with the state it met after cached segments were released. */
export interface OutOfMemory {
  readonly kind: 'out-of-memory';
  readonly askedBytes: number;
  /** Bytes that the driver would have had to give. */
  readonly segmentBytes: number;
  /** Bytes left under the cap. */
  readonly freeBytes: Known<number>;
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
}

interface AllocatorStats {
  /** Live blocks as the allocator rounds them. */
  readonly allocatedBytes: number;
  /** Segments held from the driver. */
  readonly reservedBytes: number;
  readonly peakAllocatedBytes: number;
  readonly peakReservedBytes: number;
  /** Free parts of segments that are partly in use: cached, but impossible to give back. */
  readonly inactiveSplitBytes: number;
  readonly segments: number;
  /** How often all cached segments had to be released before a request was served. */
  readonly retries: number;
}

/** The ways in which cached segments go back to the driver. */
class Release {
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
