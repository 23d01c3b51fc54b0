import type { Sized } from './sized-list.js';

interface Hole {
  start: number;
  bytes: number;
}

/** Free address space below a region, down to the next one. */
export interface Gap extends Sized {
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
