import { MiB } from '../../units/bytes.js';
import type { AddressOrder } from './settings.js';
import { roundUp } from './sizes.js';

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

interface Range {
  start: number;
  bytes: number;
}

interface Region extends Range {
  /** Free ranges, by address. */
  readonly holes: Range[];
  /** Made when the driver started; it stays when it is empty. */
  readonly lasting: boolean;
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
  /** By address. */
  readonly #regions: Region[] = [
    {
      start: -512 * MiB,
      bytes: 512 * MiB,
      holes: [{ start: -6 * MiB, bytes: 6 * MiB }],
      lasting: true,
    },
    {
      start: 0,
      bytes: 512 * MiB,
      holes: [
        { start: 0, bytes: 414 * MiB },
        { start: 490 * MiB, bytes: 22 * MiB },
      ],
      lasting: true,
    },
  ];
  #first = true;

  take(bytes: number): number {
    if (this.#first && bytes === 2 * MiB) {
      this.#first = false;
      return 414 * MiB;
    }
    this.#first = false;
    for (const region of this.#regions) {
      const place = region.holes.findIndex((hole) => hole.bytes >= bytes);
      const hole = region.holes[place];
      if (hole === undefined) continue;
      const { start } = hole;
      hole.start += bytes;
      hole.bytes -= bytes;
      if (hole.bytes === 0) region.holes.splice(place, 1);
      return start;
    }
    return this.#makeRegion(bytes);
  }

  give(address: number, bytes: number): void {
    const place = this.#regions.findIndex(
      ({ start, bytes: length }) => start <= address && address < start + length,
    );
    const region = this.#regions[place];
    if (region === undefined) return;
    addHole(region.holes, address, bytes);
    if (!region.lasting && region.holes[0]?.bytes === region.bytes) this.#regions.splice(place, 1);
  }

  #makeRegion(bytes: number): number {
    const length = roundUp(bytes, regionStep);
    let place = this.#regions.length - 1;
    for (; place > 0; place -= 1) {
      const below = this.#regions[place - 1] as Region;
      if ((this.#regions[place] as Region).start - (below.start + below.bytes) >= length) break;
    }
    const start = (this.#regions[place] as Region).start - length;
    const rest = length - bytes;
    const holes = rest > 0 ? [{ start: start + bytes, bytes: rest }] : [];
    this.#regions.splice(place, 0, { start, bytes: length, holes, lasting: false });
    return start;
  }
}

/** Adds a hole and joins it with those it touches. */
function addHole(holes: Range[], start: number, bytes: number): void {
  let place = holes.findIndex((hole) => hole.start > start);
  if (place === -1) place = holes.length;
  const before = holes[place - 1];
  const after = holes[place];
  const touchesBefore = before !== undefined && before.start + before.bytes === start;
  const touchesAfter = after !== undefined && start + bytes === after.start;
  if (touchesBefore && touchesAfter) {
    before.bytes += bytes + after.bytes;
    holes.splice(place, 1);
  } else if (touchesBefore) {
    before.bytes += bytes;
  } else if (touchesAfter) {
    after.start = start;
    after.bytes += bytes;
  } else {
    holes.splice(place, 0, { start, bytes });
  }
}
