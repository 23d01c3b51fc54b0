/** The segments held at an instant, and where in each a block is in use; addresses as offsets. */
export class SegmentMap {
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

/** Where a number is, or would be, in a sorted list. */
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
