import { MiB } from '../../units/bytes.js';
import type { AddressOrder } from './settings.js';
import { roundUp, smallSegment } from './sizes.js';

/** Where segments lie. Only the order of addresses matters, not where zero is. */
export interface AddressSpace {
  /** The address of a new range of `bytes`. */
  take(bytes: number): number;
  give(address: number, bytes: number): void;
}

export function addressSpaceFor(order: AddressOrder): AddressSpace {
  if (order === 'driver') return new DriverAddresses();
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
}

interface Region {
  readonly start: number;
  readonly bytes: number;
  /** Made when the driver started; it stays when it is empty. */
  readonly lasting: boolean;
}

/** Free address space inside a region. */
interface Hole {
  start: number;
  bytes: number;
  readonly region: Region;
}

/** The driver asks the kernel for address space in multiples of this. */
const regionStep = 32 * MiB;

/**
 * How the CUDA driver for Linux (13.0, seen on an H200) places what it is asked for. This was read
 * off the addresses in memory snapshots, and explains every segment of the recorded jobs:
 * - a range goes to the lowest hole that is large enough, in any region;
 * - if there is none, a new region of whole 32 MiB is made, in the highest gap below the first
 *   region (as the kernel's mmap does); the range lies at its start, the rest is a hole;
 * - a region that is empty again is given back.
 *
 * When a process has just started there are two regions of 512 MiB. The upper one holds the context,
 * and, at its 414th MiB, the first small segment; the lower one has 6 MiB left.
 */
class DriverAddresses implements AddressSpace {
  /** Both by address. */
  readonly #regions: Region[];
  readonly #holes: Hole[];
  /** No hole is larger, no gap between regions is: most searches would find nothing. */
  #holeBound = 414 * MiB;
  #gapBound = 0;
  #untouched = true;

  constructor() {
    const lower = { start: -512 * MiB, bytes: 512 * MiB, lasting: true };
    const upper = { start: 0, bytes: 512 * MiB, lasting: true };
    this.#regions = [lower, upper];
    this.#holes = [
      { start: -6 * MiB, bytes: 6 * MiB, region: lower },
      { start: 0, bytes: 414 * MiB, region: upper },
      { start: 490 * MiB, bytes: 22 * MiB, region: upper },
    ];
  }

  take(bytes: number): number {
    if (this.#untouched) {
      this.#untouched = false;
      if (bytes === smallSegment) return 414 * MiB;
    }
    if (bytes <= this.#holeBound) {
      for (let place = 0; place < this.#holes.length; place += 1) {
        const hole = this.#holes[place];
        if (hole === undefined || hole.bytes < bytes) continue;
        const { start } = hole;
        hole.start += bytes;
        hole.bytes -= bytes;
        if (hole.bytes === 0) this.#holes.splice(place, 1);
        return start;
      }
      this.#holeBound = bytes - 1;
    }
    return this.#makeRegion(bytes);
  }

  give(address: number, bytes: number): void {
    const at = this.#regions.findLastIndex(({ start }) => start <= address);
    const region = this.#regions[at];
    if (region === undefined) throw new RangeError(`Address ${address} was never taken.`);
    const hole = this.#addHole(address, bytes, region);
    if (region.lasting || hole.bytes < region.bytes) return;
    this.#holes.splice(this.#holes.indexOf(hole), 1);
    this.#regions.splice(at, 1);
    this.#gapBound = Math.max(this.#gapBound, this.#gapBelow(at));
  }

  #makeRegion(bytes: number): number {
    const length = roundUp(bytes, regionStep);
    let at = 0;
    if (length <= this.#gapBound) {
      at = this.#regions.length - 1;
      while (at > 0 && this.#gapBelow(at) < length) at -= 1;
      if (at === 0) this.#gapBound = length - 1;
    }
    const start = (this.#regions[at]?.start ?? 0) - length;
    const region = { start, bytes: length, lasting: false };
    this.#regions.splice(at, 0, region);
    if (length > bytes) this.#addHole(start + bytes, length - bytes, region);
    return start;
  }

  /** Free address space between a region and the next lower one. */
  #gapBelow(at: number): number {
    const region = this.#regions[at];
    const below = this.#regions[at - 1];
    return region && below ? region.start - (below.start + below.bytes) : 0;
  }

  /** Adds a hole, joined with those of the same region that it touches. */
  #addHole(start: number, bytes: number, region: Region): Hole {
    const holes = this.#holes;
    const found = holes.findIndex((hole) => hole.start > start);
    let place = found === -1 ? holes.length : found;
    const hole = { start, bytes, region };
    const after = holes[place];
    if (after?.region === region && after.start === start + bytes) {
      hole.bytes += after.bytes;
      holes.splice(place, 1);
    }
    const before = holes[place - 1];
    if (before?.region === region && before.start + before.bytes === start) {
      hole.start = before.start;
      hole.bytes += before.bytes;
      place -= 1;
      holes.splice(place, 1);
    }
    holes.splice(place, 0, hole);
    this.#holeBound = Math.max(this.#holeBound, hole.bytes);
    return hole;
  }
}
