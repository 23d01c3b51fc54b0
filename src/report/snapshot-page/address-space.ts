import { blockStep } from '../../estimate/allocator/sizes.js';

/** A stretch of addresses, as bytes above the lowest one. */
export interface AddressRange {
  readonly offset: number;
  readonly bytes: number;
}

/**
 * The addresses of a snapshot lie far apart. Here the gaps between are taken out, so that a place
 * is a small number: units of 512 bytes, regions one after the other with a unit between them.
 */
export class AddressSpace {
  readonly regions: readonly { readonly place: number; readonly offset: number }[];
  readonly #ends: readonly number[];

  constructor(ranges: readonly AddressRange[]) {
    const regions: { place: number; offset: number; end: number }[] = [];
    for (const { offset, bytes } of ranges.toSorted((a, b) => a.offset - b.offset)) {
      const last = regions.at(-1);
      const end = offset + bytes;
      if (last && offset <= last.end) last.end = Math.max(last.end, end);
      else {
        const place = last ? last.place + Math.ceil((last.end - last.offset) / blockStep) + 1 : 0;
        regions.push({ place, offset, end });
      }
    }
    this.regions = regions;
    this.#ends = regions.map(({ end }) => end);
  }

  /** The place of an offset; undefined where it lies in no region. */
  placeOf(offset: number): number | undefined {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ends[middle] ?? 0) <= offset) low = middle + 1;
      else high = middle;
    }
    const region = this.regions[low];
    if (region === undefined || offset < region.offset) return undefined;
    return region.place + Math.floor((offset - region.offset) / blockStep);
  }
}
