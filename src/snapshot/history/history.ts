import { blockSizeFor, largestSmall } from '../../estimate/allocator/settings.js';
import { action } from '../records/known-strings.js';
import {
  type Block,
  type DeviceSnapshot,
  type Events,
  type RecordedSettings,
  rowOf,
  type Snapshot,
} from '../snapshot.js';
import { Room } from '../tables/stack-table.js';

/** Not freed by the end of the recording. */
export const never = -1;
/** Allocated before the recording began. */
export const before = -1;

/** Every allocation that the recording shows, from its birth to its end, in columns. */
export class Lives {
  readonly #bytes: Room<Float64Array>;
  readonly #requested: Room<Float64Array>;
  readonly #born: Room<Int32Array>;
  readonly #freed: Room<Int32Array>;
  readonly #returned: Room<Int32Array>;
  readonly #stack: Room<Int32Array>;
  readonly #address: Room<Int32Array>;
  readonly #stream: Room<Uint16Array>;
  length = 0;

  constructor(expected: number) {
    this.#bytes = new Room(Float64Array, expected);
    this.#requested = new Room(Float64Array, expected);
    this.#born = new Room(Int32Array, expected);
    this.#freed = new Room(Int32Array, expected);
    this.#returned = new Room(Int32Array, expected);
    this.#stack = new Room(Int32Array, expected);
    this.#address = new Room(Int32Array, expected);
    this.#stream = new Room(Uint16Array, expected);
  }

  /** Bytes of the block, as the allocator counts them. */
  get bytes(): Float64Array {
    return this.#bytes.column;
  }
  /** Bytes that were asked for. */
  get requested(): Float64Array {
    return this.#requested.column;
  }
  /** The event that allocated it, or `before`. */
  get born(): Int32Array {
    return this.#born.column;
  }
  /** The event that freed it, or `never`. */
  get freed(): Int32Array {
    return this.#freed.column;
  }
  /** The event after which no stream used it any more, or `never`. */
  get returned(): Int32Array {
    return this.#returned.column;
  }
  get stack(): Int32Array {
    return this.#stack.column;
  }
  get address(): Int32Array {
    return this.#address.column;
  }
  get stream(): Uint16Array {
    return this.#stream.column;
  }

  add(
    bytes: number,
    requested: number,
    born: number,
    stack: number,
    address: number,
    stream: number,
  ): number {
    const life = this.length;
    this.length += 1;
    this.#bytes.upTo(life)[life] = bytes;
    this.#requested.upTo(life)[life] = requested;
    this.#born.upTo(life)[life] = born;
    this.#freed.upTo(life)[life] = never;
    this.#returned.upTo(life)[life] = never;
    this.#stack.upTo(life)[life] = stack;
    this.#address.upTo(life)[life] = address;
    this.#stream.upTo(life)[life] = stream;
    return life;
  }
}

/** How much was held at an instant. */
interface Level {
  /** The event after which it was so; -1: before the first. */
  readonly index: number;
  readonly allocatedBytes: number;
  readonly activeBytes: number;
  readonly reservedBytes: number;
}

/** The history of one device, rebuilt from its events and its final state. */
export interface History {
  readonly lives: Lives;
  readonly start: Level;
  readonly end: Level;
  readonly peakAllocated: Level;
  readonly peakReserved: Level;
  /** Levels at the out-of-memory events, in order. */
  readonly outOfMemory: readonly Level[];
  /**
   * Bytes by which the end differs from the segments: 0 unless the recording was stopped before the
   * snapshot, or lost events.
   */
  readonly driftBytes: number;
}

/** Called after every event: what is held then. */
type LevelVisitor = (
  index: number,
  row: number,
  allocatedBytes: number,
  activeBytes: number,
  reservedBytes: number,
) => void;

/**
 * Plays the recording from what was there at its beginning to its end: when each allocation was
 * born and freed, with the bytes the allocator counted, and how much was held at each instant.
 *
 * @example
 * const { peakAllocated } = rebuildHistory(snapshot, device);
 * peakAllocated.allocatedBytes;
 */
export function rebuildHistory(
  snapshot: Snapshot,
  device: DeviceSnapshot,
  visit: LevelVisitor = () => {},
): History {
  const { names } = snapshot;
  const { offset } = names;
  const { events } = device;
  const beginning = findBeginning(device, names.addressCount);
  const segments = new SegmentMap();
  for (const { address, bytes } of beginning.segments) segments.add(offset[address] ?? 0, bytes);
  const sizes = blockSizes(snapshot.settings, segments);
  const lives = new Lives(Math.ceil(events.length * 0.45));
  /** The life that an address has now, and one that was freed but is still in use by a stream. */
  const current = new Int32Array(names.addressCount).fill(never);
  const pending = new Int32Array(names.addressCount).fill(never);
  let allocated = 0;
  let active = 0;
  for (const { address, bytes, block } of sortedByOffset(beginning.blocks, offset)) {
    const size = block?.bytes ?? sizes.begin(offset[address] ?? 0, bytes);
    if (block) sizes.begin(offset[address] ?? 0, size);
    const requested = block?.requestedBytes ?? bytes;
    const life = lives.add(size, requested, before, block?.stack ?? 0, address, 0);
    active += size;
    if (block?.state === 'pending-free') {
      lives.freed[life] = 0;
      pending[address] = life;
    } else {
      allocated += size;
      current[address] = life;
    }
  }
  let reserved = reservedAtStart(device);
  const levelAt = (index: number): Level => ({
    index,
    allocatedBytes: allocated,
    activeBytes: active,
    reservedBytes: reserved,
  });
  const start = levelAt(-1);
  let peakAllocated = start;
  let peakReserved = start;
  const outOfMemory: Level[] = [];
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const address = events.address[row] ?? -1;
    const bytes = events.bytes[row] ?? 0;
    switch (events.action[row] ?? action.other) {
      case action.alloc: {
        if (address < 0) break;
        const lost = current[address] ?? never;
        // Its free was not recorded.
        if (lost !== never) {
          lives.freed[lost] = index;
          lives.returned[lost] = index;
          allocated -= lives.bytes[lost] ?? 0;
          active -= lives.bytes[lost] ?? 0;
        }
        const size = sizes.begin(offset[address] ?? 0, bytes);
        const stack = events.stack[row] ?? 0;
        current[address] = lives.add(size, bytes, index, stack, address, events.stream[row] ?? 0);
        allocated += size;
        active += size;
        if (allocated > peakAllocated.allocatedBytes) peakAllocated = levelAt(index);
        break;
      }
      case action.freeRequested: {
        const life = address < 0 ? never : (current[address] ?? never);
        if (life === never) break;
        lives.freed[life] = index;
        allocated -= lives.bytes[life] ?? 0;
        current[address] = never;
        pending[address] = life;
        break;
      }
      case action.freeCompleted: {
        if (address < 0) break;
        let life = pending[address] ?? never;
        if (life === never) {
          // The request came before the recording began.
          life = current[address] ?? never;
          if (life === never) break;
          lives.freed[life] = index;
          allocated -= lives.bytes[life] ?? 0;
          current[address] = never;
        }
        active -= lives.bytes[life] ?? 0;
        lives.returned[life] = index;
        pending[address] = never;
        sizes.end(offset[address] ?? 0, lives.bytes[life] ?? 0);
        break;
      }
      case action.segmentAlloc:
        if (address >= 0) segments.add(offset[address] ?? 0, bytes);
        reserved += bytes;
        break;
      case action.segmentMap:
        reserved += bytes;
        break;
      case action.segmentFree:
        if (address >= 0) segments.remove(offset[address] ?? 0);
        reserved -= bytes;
        break;
      case action.segmentUnmap:
        reserved -= bytes;
        break;
      case action.oom:
        outOfMemory.push(levelAt(index));
        break;
      default:
    }
    if (reserved > peakReserved.reservedBytes) peakReserved = levelAt(index);
    visit(index, row, allocated, active, reserved);
  }
  const end = levelAt(events.length - 1);
  const now = device.segments.reduce((sum, segment) => sum + segment.allocatedBytes, 0);
  const driftBytes = now - end.allocatedBytes;
  return { lives, start, end, peakAllocated, peakReserved, outOfMemory, driftBytes };
}

/** Blocks from the highest address down, so that each finds where the next one begins. */
function sortedByOffset<One extends { readonly address: number }>(
  blocks: readonly One[],
  offset: Float64Array,
): One[] {
  return blocks.toSorted((a, b) => (offset[b.address] ?? 0) - (offset[a.address] ?? 0));
}

/** Returns the bytes held at the start: those held now, less those taken since, plus those given back. */
function reservedAtStart({ segments, events }: DeviceSnapshot): number {
  let bytes = segments.reduce((sum, segment) => sum + segment.totalBytes, 0);
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const code = events.action[row];
    if (code === action.segmentAlloc || code === action.segmentMap) bytes -= events.bytes[row] ?? 0;
    else if (code === action.segmentFree || code === action.segmentUnmap) {
      bytes += events.bytes[row] ?? 0;
    }
  }
  return Math.max(0, bytes);
}

/** A block or a segment that was there when the recording began. */
interface Earlier {
  readonly address: number;
  /** Of a block that is still there, as the allocator counts it; else as it was asked for. */
  readonly bytes: number;
  readonly block: Block | undefined;
}

interface Beginning {
  readonly blocks: readonly Earlier[];
  readonly segments: readonly Earlier[];
}

/**
 * Reconstructs the state before the first event. The recording is a ring whose beginning may be
 * lost, so the state follows from its end: blocks that exist now and were not allocated in between,
 * and blocks that were freed without an allocation.
 */
export function findBeginning(device: DeviceSnapshot, addressCount: number): Beginning {
  const { events } = device;
  const blocks = firstTouched(events, addressCount, 'blocks');
  const segments = firstTouched(events, addressCount, 'segments');
  for (const segment of device.segments) {
    const { address, totalBytes } = segment;
    if (!segment.expandable && segments.seen[address] === 0) {
      segments.earlier.push({ address, bytes: totalBytes, block: undefined });
    }
    for (const block of segment.blocks) {
      if (block.state !== 'inactive' && blocks.seen[block.address] === 0) {
        blocks.earlier.push({ address: block.address, bytes: block.bytes, block });
      }
    }
  }
  return { blocks: blocks.earlier, segments: segments.earlier };
}

/** Returns the blocks whose first event is a free: they existed before the recording. */
function firstTouched(events: Events, addressCount: number, what: 'blocks' | 'segments') {
  const seen = new Uint8Array(addressCount);
  const earlier: Earlier[] = [];
  const isBlocks = what === 'blocks';
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const code = events.action[row] ?? 0;
    const begins = code === (isBlocks ? action.alloc : action.segmentAlloc);
    const ends = isBlocks
      ? code === action.freeRequested || code === action.freeCompleted
      : code === action.segmentFree;
    const address = events.address[row] ?? -1;
    if (!(begins || ends) || address < 0 || seen[address] !== 0) continue;
    seen[address] = 1;
    if (ends) earlier.push({ address, bytes: events.bytes[row] ?? 0, block: undefined });
  }
  return { seen, earlier };
}

/** The segments held at an instant, and where in each a block is in use; addresses as offsets. */
class SegmentMap {
  readonly #bases: number[] = [];
  readonly #segments: { readonly bytes: number; readonly starts: number[] }[] = [];

  add(base: number, bytes: number): void {
    const at = placeOf(this.#bases, base);
    if (this.#bases[at] === base) {
      this.#segments[at] = { bytes, starts: [] };
      return;
    }
    this.#bases.splice(at, 0, base);
    this.#segments.splice(at, 0, { bytes, starts: [] });
  }

  remove(base: number): void {
    const at = placeOf(this.#bases, base);
    if (this.#bases[at] !== base) return;
    this.#bases.splice(at, 1);
    this.#segments.splice(at, 1);
  }

  /**
   * Marks a block as begun and answers the bytes from there to the next block in use, or to the end
   * of the segment; undefined where no segment is known.
   */
  begin(start: number): number | undefined {
    const at = this.#segmentAt(start);
    const segment = this.#segments[at];
    if (segment === undefined) return undefined;
    const place = placeOf(segment.starts, start);
    if (segment.starts[place] !== start) segment.starts.splice(place, 0, start);
    const next = segment.starts[place + 1] ?? (this.#bases[at] ?? 0) + segment.bytes;
    return next - start;
  }

  end(start: number): void {
    const segment = this.#segments[this.#segmentAt(start)];
    if (segment === undefined) return;
    const place = placeOf(segment.starts, start);
    if (segment.starts[place] === start) segment.starts.splice(place, 1);
  }

  #segmentAt(address: number): number {
    const after = placeOf(this.#bases, address);
    const at = this.#bases[after] === address ? after : after - 1;
    const segment = this.#segments[at];
    const base = this.#bases[at] ?? 0;
    return segment !== undefined && address < base + segment.bytes ? at : -1;
  }
}

/** Returns the index of a number in a sorted list, or the index to insert it at. */
function placeOf(sorted: readonly number[], wanted: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The size of a block, which the events do not tell: they have what was asked for. The allocator
 * rounds that up, and leaves a rest that is not worth a block of its own to the block before it.
 * How large that rest is shows in where the next block in use begins.
 */
function blockSizes(settings: RecordedSettings, segments: SegmentMap) {
  const { roundupDivisions, maxSplitBytes } = settings;
  const unsplit = maxSplitBytes > 0 ? maxSplitBytes : Infinity;
  return {
    begin(offset: number, requested: number): number {
      const size = blockSizeFor(Math.max(1, requested), roundupDivisions);
      // Small blocks are always cut to size; so are those of expandable segments, which are in no
      // map, so that no gap is found for them.
      if (size <= largestSmall) return size;
      const gap = segments.begin(offset);
      if (gap === undefined || gap < size) return size;
      return size < unsplit && gap - size > largestSmall ? size : gap;
    },
    end(offset: number, bytes: number): void {
      if (bytes > largestSmall) segments.end(offset);
    },
  };
}
