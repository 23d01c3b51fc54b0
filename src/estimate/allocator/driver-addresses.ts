import { MiB } from '../../units/bytes.js';
import { AddressRegion } from './address-region.js';
import { roundUp, segmentStep, smallSegment } from './sizes.js';

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
 * Those last ones count as an older region: they are used after all other holes. Once kernels ran,
 * the first 414 MiB are free, 2 MiB more are taken at the 488th, and a new region of 512 MiB lies
 * below, with 6 MiB left: it seems that the driver moved something that had to grow.
 */
export class DriverAddresses {
  /** By address. */
  readonly #regions: AddressRegion[] = [];
  /** By age, the oldest first. */
  readonly #byAge: AddressRegion[] = [];
  /** No hole is larger, no gap between regions is: most searches would find nothing. */
  #holeBound = 0;
  #gapBound = 0;
  /** The small segment that was there before kernels ran is the first to be asked for. */
  #expectsFirstSmall: boolean;

  constructor(history: DriverHistory) {
    this.#expectsFirstSmall = history === 'after-kernels';
    const tail = this.#addLasting(480 * MiB, 32 * MiB);
    const main = this.#addLasting(0, 480 * MiB);
    if (history === 'fresh') {
      this.#addHole(tail, 488 * MiB, 24 * MiB);
      this.#addHole(main, 414 * MiB, 2 * MiB);
      return;
    }
    const lower = this.#addLasting(-512 * MiB, 512 * MiB);
    this.#addHole(tail, 490 * MiB, 22 * MiB);
    this.#addHole(main, 0, 414 * MiB);
    this.#addHole(lower, -6 * MiB, 6 * MiB);
  }

  take(asked: number): number {
    const bytes = roundUp(asked, segmentStep);
    if (this.#expectsFirstSmall) {
      this.#expectsFirstSmall = false;
      if (bytes === smallSegment) return 414 * MiB;
    }
    if (bytes <= this.#holeBound) {
      for (let at = this.#byAge.length - 1; at >= 0; at -= 1) {
        const start = this.#byAge[at]?.take(bytes);
        if (start !== undefined) return start;
      }
      this.#holeBound = bytes - 1;
    }
    return this.#makeRegion(bytes);
  }

  give(address: number, bytes: number): void {
    const at = this.#regions.findLastIndex(({ start }) => start <= address);
    const region = this.#regions[at];
    if (region === undefined) throw new RangeError(`Address ${address} was never taken.`);
    this.#addHole(region, address, roundUp(bytes, segmentStep));
    if (!region.isEmpty) return;
    this.#regions.splice(at, 1);
    this.#byAge.splice(this.#byAge.indexOf(region), 1);
    this.#gapBound = Math.max(this.#gapBound, this.#gapBelow(at));
  }

  #addLasting(start: number, bytes: number): AddressRegion {
    const region = new AddressRegion(start, bytes, true);
    this.#byAge.push(region);
    this.#insert(region);
    return region;
  }

  #addHole(region: AddressRegion, start: number, bytes: number): void {
    this.#holeBound = Math.max(this.#holeBound, region.give(start, bytes));
  }

  #makeRegion(bytes: number): number {
    const length = roundUp(bytes, regionStep);
    let at = 0;
    if (length < this.#gapBound) {
      at = this.#regions.length - 1;
      while (at > 0 && this.#gapBelow(at) <= length) at -= 1;
      if (at === 0) this.#gapBound = length;
    }
    const start = (this.#regions[at]?.start ?? 0) - length;
    const region = new AddressRegion(start, length, false);
    this.#regions.splice(at, 0, region);
    this.#byAge.push(region);
    if (length > bytes) this.#addHole(region, start + bytes, length - bytes);
    return start;
  }

  #insert(region: AddressRegion): void {
    const above = this.#regions.findIndex(({ start }) => start > region.start);
    this.#regions.splice(above === -1 ? this.#regions.length : above, 0, region);
  }

  /** Free address space between a region and the next lower one. */
  #gapBelow(at: number): number {
    const region = this.#regions[at];
    const below = this.#regions[at - 1];
    return region && below ? region.start - (below.start + below.bytes) : 0;
  }
}
