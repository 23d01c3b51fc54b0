import { limits } from '../limits.js';
import { refuseLimit, refuseSnapshot } from '../refusals.js';
import { Room } from '../tables/room.js';
import { kind, kindOf, stringTag } from './values.js';

/** Nothing was put here. */
export const absent = -1;

/** Values that are used again, by number. Python numbers them one after another. */
export class Memo {
  readonly #room: Room<Int32Array>;
  #length = 0;
  #last = absent;
  #repeats = 0;

  constructor(expected: number) {
    this.#room = new Room(Int32Array, expected);
  }

  get length(): number {
    return this.#length;
  }

  /** For the reader's inner loop: valid until the next `put`. */
  get column(): Int32Array {
    return this.#room.column;
  }

  /** Puts a list, dict or string at the next place, where that is all there is to it. */
  addNext(tag: number): boolean {
    const { column } = this.#room;
    const next = this.#length;
    if (tag < stringTag || tag === this.#last || next >= column.length) return false;
    column[next] = tag;
    this.#last = tag;
    this.#repeats = 0;
    this.#length = next + 1;
    return true;
  }

  put(index: number, tag: number): void {
    // A number far beyond the last one would make room for nothing.
    if (index > this.#length + limits.openMarks) {
      refuseSnapshot(`its memo jumps from place ${this.#length} to ${index}`);
    }
    if (index >= limits.memoEntries) refuseLimit('places in its memo', limits.memoEntries);
    const what = kindOf(tag);
    if (what === kind.integer || what === kind.wide || what === kind.float) {
      refuseSnapshot('it has a bare number in its memo');
    }
    if (tag === this.#last) this.#repeats += 1;
    else this.#repeats = 0;
    this.#last = tag;
    // Python keeps a value once; equal strings may follow one another, but not for long.
    if (this.#repeats > limits.openMarks) refuseSnapshot('its memo holds one value over and over');
    const column = this.#room.upTo(index);
    while (this.#length < index) {
      column[this.#length] = absent;
      this.#length += 1;
    }
    column[index] = tag;
    if (index === this.#length) this.#length += 1;
  }

  get(index: number): number {
    const tag = index < this.#length ? (this.#room.column[index] ?? absent) : absent;
    if (tag === absent) refuseSnapshot(`it refers to place ${index} of its memo, which is empty`);
    return tag;
  }
}
