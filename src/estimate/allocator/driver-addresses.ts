import { MiB } from '../../units/bytes.js';
import { type AddressOrder, roundUp, segmentStep, smallSegment } from './settings.js';

/** The driver asks the kernel for address space in multiples of this. */
export const regionStep = 32 * MiB;

/**
 * What the process did before the first segment.
 * - `fresh`: nothing but start CUDA;
 * - `after-kernels`: it made a small tensor and ran kernels on it, as every job soon does.
 */
export type DriverHistory = 'fresh' | 'after-kernels';

/**
 * How the CUDA driver for Linux (13.0, seen on an H200) places what it is asked for. It explains the
 * address of every segment in the recorded random sequences, and in three memory snapshots once it
 * is granted that libraries take some address space between them:
 * - a range goes to the newest region that has a hole large enough for it; of two such holes in one
 *   region to the smaller (the recordings have a single case of that);
 * - if there is none, a new region of whole 32 MiB is made at the upper end of the highest gap
 *   between regions that is larger than it (a gap of just its size is passed over), or else below
 *   all others; the range lies at its start, the rest is a hole;
 * - a region that is empty again is given back.
 *
 * In a fresh process 512 MiB are there, with 2 MiB free at the 414th and 24 MiB from the 488th on.
 * Those last ones count as an older region: they are used after all other holes. When the first kernel
 * runs, 2 MiB more are taken, a new region of 512 MiB is made, with 6 MiB left at its end, and the first
 * 414 MiB are free: it seems that the driver moved something that had to grow. Segments from before, as of
 * a model that is only built by then, lie between the two.
 */
export class DriverAddresses {
  /** By age; their size is that of their largest hole. */
  #regions = new SizedList<AddressRegion>();
  /** Free address space between two regions, by the start of the upper one. */
  #gaps = new SizedList<Gap>();
  /** The region of each range that is in use, by where it starts. */
  readonly #taken = new Map<number, AddressRegion>();
  #lowest: AddressRegion | undefined;
  /** The one that was there first. */
  #main: AddressRegion;
  #made = 0;
  /** The small segment that was there before kernels ran is the first to be asked for. */
  #firstSmall: AddressRegion | undefined;

  constructor(history: DriverHistory) {
    const tail = this.#addBelow(480 * MiB, 32 * MiB, true);
    const main = this.#addBelow(0, 480 * MiB, true);
    this.#main = main;
    if (history === 'fresh') {
      this.#addHole(tail, 488 * MiB, 24 * MiB);
      this.#addHole(main, 414 * MiB, 2 * MiB);
      return;
    }
    this.#firstSmall = main;
    const lower = this.#addBelow(-512 * MiB, 512 * MiB, true);
    this.#addHole(tail, 490 * MiB, 22 * MiB);
    this.#addHole(main, 0, 414 * MiB);
    this.#addHole(lower, -6 * MiB, 6 * MiB);
  }

  /** One in the same state, which from now on goes its own way. */
  copy(): DriverAddresses {
    const made = new DriverAddresses('fresh');
    const copies = new Map<AddressRegion, AddressRegion>();
    for (let region = this.#lowest; region !== undefined; region = region.above) {
      copies.set(region, region.copy());
    }
    const copyOf = (region: AddressRegion) => copies.get(region) ?? region;
    const orNone = (region: AddressRegion | undefined) => region && copyOf(region);
    for (const [region, copy] of copies) {
      copy.above = orNone(region.above);
      copy.below = orNone(region.below);
      copy.gap = region.gap && { ...region.gap, above: copy };
    }
    made.#regions = this.#regions.copy(copyOf);
    made.#gaps = this.#gaps.copy((gap) => copyOf(gap.above).gap ?? gap);
    made.#taken.clear();
    for (const [start, region] of this.#taken) made.#taken.set(start, copyOf(region));
    made.#lowest = orNone(this.#lowest);
    made.#main = copyOf(this.#main);
    made.#made = this.#made;
    made.#firstSmall = orNone(this.#firstSmall);
    return made;
  }

  take(asked: number): number {
    const bytes = roundUp(asked, segmentStep);
    const first = this.#firstSmall;
    this.#firstSmall = undefined;
    if (first !== undefined && bytes === smallSegment) return this.#note(414 * MiB, first);
    const region = this.#regions.lastOf(bytes);
    if (region === undefined) return this.#makeRegion(bytes);
    const start = region.take(bytes);
    this.#regions.resize(region, region.largestHole());
    return this.#note(start, region);
  }

  give(address: number, bytes: number): void {
    const region = this.#taken.get(address);
    if (region === undefined) throw new RangeError(`Address ${address} was never taken.`);
    this.#taken.delete(address);
    this.#addHole(region, address, roundUp(bytes, segmentStep));
    if (region.isEmpty) this.#remove(region);
  }

  /** The first kernel runs in a process that was fresh until now. */
  runFirstKernel(): void {
    this.take(smallSegment);
    const moved = this.#makeRegion(512 * MiB);
    const region = this.#taken.get(moved);
    this.#taken.delete(moved);
    if (region !== undefined) this.#addHole(region, moved + 506 * MiB, 6 * MiB);
    this.#addHole(this.#main, 0, 414 * MiB);
  }

  #note(start: number, region: AddressRegion): number {
    this.#taken.set(start, region);
    return start;
  }

  #addHole(region: AddressRegion, start: number, bytes: number): void {
    region.give(start, bytes);
    this.#regions.resize(region, region.largestHole());
  }

  #makeRegion(bytes: number): number {
    const length = roundUp(bytes, regionStep);
    // A gap of just its size is passed over.
    const gap = this.#gaps.lastOf(length + 1);
    const region =
      gap === undefined
        ? this.#addBelow((this.#lowest?.start ?? 0) - length, length, false)
        : this.#addInto(gap, length);
    const { start } = region;
    if (length > bytes) this.#addHole(region, start + bytes, length - bytes);
    return this.#note(start, region);
  }

  #region(start: number, bytes: number, lasting: boolean): AddressRegion {
    const region = new AddressRegion(start, bytes, lasting, this.#made);
    this.#made += 1;
    this.#regions.add(region);
    return region;
  }

  /** Below all others. */
  #addBelow(start: number, bytes: number, lasting: boolean): AddressRegion {
    const region = this.#region(start, bytes, lasting);
    const above = this.#lowest;
    region.above = above;
    if (above !== undefined) above.below = region;
    this.#lowest = region;
    return region;
  }

  /** At the upper end of a gap that is larger than it. */
  #addInto(gap: Gap, bytes: number): AddressRegion {
    const { above, size } = gap;
    const region = this.#region(above.start - bytes, bytes, false);
    this.#gaps.remove(gap);
    above.gap = undefined;
    region.above = above;
    region.below = above.below;
    if (above.below !== undefined) above.below.above = region;
    above.below = region;
    this.#setGap(region, size - bytes);
    return region;
  }

  #remove(region: AddressRegion): void {
    const { above, below } = region;
    this.#regions.remove(region);
    if (region.gap !== undefined) this.#gaps.remove(region.gap);
    if (below === undefined) this.#lowest = above;
    else below.above = above;
    if (above === undefined) return;
    above.below = below;
    // Below the lowest region nothing ends, so that there is no gap.
    this.#setGap(above, below === undefined ? 0 : above.start - below.start - below.bytes);
  }

  #setGap(above: AddressRegion, size: number): void {
    if (above.gap !== undefined) this.#gaps.remove(above.gap);
    above.gap = size > 0 ? { order: above.start, size, above } : undefined;
    if (above.gap !== undefined) this.#gaps.add(above.gap);
  }
}

/** Something with a place in an order and a size. Its order never changes. */
export interface Sized {
  readonly order: number;
  size: number;
}

interface Chunk<T> {
  readonly entries: T[];
  /** No entry is larger. */
  largest: number;
}

/** Chunks are looked at one by one, their entries too: about as many of one as of the other. */
const maxEntries = 128;

/** Entries in an order, where the last that is large enough is found without looking at each. */
export class SizedList<T extends Sized> {
  readonly #chunks: Chunk<T>[] = [];

  /** The same list of copies of its entries, which have the same order and size. */
  copy(copyOf: (entry: T) => T): SizedList<T> {
    const made = new SizedList<T>();
    for (const { entries, largest } of this.#chunks) {
      made.#chunks.push({ entries: entries.map(copyOf), largest });
    }
    return made;
  }

  add(entry: T): void {
    const number = Math.max(0, this.#chunkFor(entry.order));
    const chunk = this.#chunks[number];
    if (chunk === undefined) {
      this.#chunks.push({ entries: [entry], largest: entry.size });
      return;
    }
    const { entries } = chunk;
    entries.splice(placeIn(entries, entry.order), 0, entry);
    chunk.largest = Math.max(chunk.largest, entry.size);
    if (entries.length < maxEntries) return;
    const upper = entries.splice(entries.length >>> 1);
    this.#chunks.splice(number + 1, 0, { entries: upper, largest: largestOf(upper) });
    chunk.largest = largestOf(entries);
  }

  remove(entry: T): void {
    const number = this.#chunkFor(entry.order);
    const chunk = this.#chunks[number];
    if (chunk === undefined) return;
    chunk.entries.splice(placeIn(chunk.entries, entry.order), 1);
    if (chunk.entries.length === 0) this.#chunks.splice(number, 1);
    else if (chunk.largest === entry.size) chunk.largest = largestOf(chunk.entries);
  }

  resize(entry: T, size: number): void {
    const before = entry.size;
    if (before === size) return;
    entry.size = size;
    const chunk = this.#chunks[this.#chunkFor(entry.order)];
    if (chunk === undefined) return;
    if (size > chunk.largest) chunk.largest = size;
    else if (before === chunk.largest) chunk.largest = largestOf(chunk.entries);
  }

  /** The last in the order with at least this size. */
  lastOf(size: number): T | undefined {
    return this.#chunks
      .findLast(({ largest }) => largest >= size)
      ?.entries.findLast((entry) => entry.size >= size);
  }

  /** The last chunk that starts at or before it; -1 where all start later. */
  #chunkFor(order: number): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#chunks[middle]?.entries[0]?.order ?? 0) <= order) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

function placeIn(entries: readonly Sized[], order: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.order ?? 0) < order) low = middle + 1;
    else high = middle;
  }
  return low;
}

function largestOf(entries: readonly Sized[]): number {
  return entries.reduce((most, { size }) => Math.max(most, size), 0);
}

interface Hole {
  start: number;
  bytes: number;
}

/** Free address space below a region, down to the next one. */
interface Gap extends Sized {
  readonly above: AddressRegion;
}

/** One stretch of address space that the driver holds, and what of it is free. */
export class AddressRegion implements Sized {
  readonly start: number;
  readonly bytes: number;
  /** Its age: regions made later have a higher number. */
  readonly order: number;
  /** Its largest hole, as its list knows it. */
  size = 0;
  /** The next regions by address, and the gap to the lower one where there is any. */
  above: AddressRegion | undefined;
  below: AddressRegion | undefined;
  gap: Gap | undefined;
  readonly #lasting: boolean;
  /** By address; no two touch. */
  readonly #holes: Hole[] = [];

  /** All of it is in use. `lasting`: made when the driver started, stays when it is empty. */
  constructor(start: number, bytes: number, lasting: boolean, order: number) {
    this.order = order;
    this.start = start;
    this.bytes = bytes;
    this.#lasting = lasting;
  }

  /** The same region, of which the same is free; it has no neighbours yet. */
  copy(): AddressRegion {
    const made = new AddressRegion(this.start, this.bytes, this.#lasting, this.order);
    made.size = this.size;
    for (const hole of this.#holes) made.#holes.push({ ...hole });
    return made;
  }

  /** Nothing is in use, and it may go. */
  get isEmpty(): boolean {
    return !this.#lasting && this.#holes[0]?.bytes === this.bytes;
  }

  largestHole(): number {
    return this.#holes.reduce((most, { bytes }) => Math.max(most, bytes), 0);
  }

  /** Takes the start of the smallest hole that is large enough. */
  take(bytes: number): number {
    let best: Hole | undefined;
    for (const hole of this.#holes) {
      if (hole.bytes >= bytes && hole.bytes < (best?.bytes ?? Infinity)) best = hole;
    }
    if (best === undefined) throw new RangeError(`No hole has ${bytes} bytes.`);
    const { start } = best;
    best.start += bytes;
    best.bytes -= bytes;
    if (best.bytes === 0) this.#holes.splice(this.#holes.indexOf(best), 1);
    return start;
  }

  /** Frees a range. */
  give(start: number, bytes: number): void {
    const holes = this.#holes;
    const found = holes.findIndex((hole) => hole.start > start);
    const place = found === -1 ? holes.length : found;
    const before = holes[place - 1];
    const after = holes[place];
    const joinsBefore = before !== undefined && before.start + before.bytes === start;
    const joinsAfter = after !== undefined && start + bytes === after.start;
    const hole = joinsBefore ? before : { start, bytes: 0 };
    hole.bytes += bytes + (joinsAfter ? after.bytes : 0);
    if (joinsAfter) holes.splice(place, 1);
    if (!joinsBefore) holes.splice(place, 0, hole);
  }
}

/** The addresses of segments. Only their order matters, not the position of zero. */
export interface AddressSpace {
  /** The address of a new range of `bytes`. */
  take(bytes: number): number;
  give(address: number, bytes: number): void;
  /** The first kernel of the process runs, where it was a fresh one until now. */
  runFirstKernel(): void;
  /** One in the same state, which from now on goes its own way. */
  copy(): AddressSpace;
}

export function addressSpaceFor(order: AddressOrder): AddressSpace {
  if (order === 'driver') return new DriverAddresses('after-kernels');
  if (order === 'fresh-driver') return new DriverAddresses('fresh');
  return new StraightAddresses(order === 'falling' ? -1 : 1);
}

/** Addresses are never used again: each new range lies beyond all earlier ones. */
class StraightAddresses implements AddressSpace {
  #edge = 0;
  readonly #direction: 1 | -1;

  constructor(direction: 1 | -1) {
    this.#direction = direction;
  }

  take(bytes: number): number {
    const start = this.#direction === 1 ? this.#edge : this.#edge - bytes;
    this.#edge += this.#direction * bytes;
    return start;
  }

  give(): void {}

  runFirstKernel(): void {}

  copy(): AddressSpace {
    const made = new StraightAddresses(this.#direction);
    made.#edge = this.#edge;
    return made;
  }
}
